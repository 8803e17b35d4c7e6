// SPDX-License-Identifier: Apache-2.0

// Package webserver is the server of pages and figures that people look at in a browser: what it refuses, and the
// limits of time, size and number that it sets to those who ask.
//
// Guarantee: nothing but GET and HEAD is answered, and only under a name that is this server's, so that a page from
// elsewhere can't read anything by way of a person's browser (DNS rebinding). Who reads slowly, or not at all, holds up
// nobody for longer than the limits.
//
//	listener, at, err := webserver.Listen("127.0.0.1:0")
//	server := webserver.New(handler, webserver.Names(address, at)...)
//	err = server.Serve(listener)
package webserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

// Limits.
const (
	connectionsMax = 64
	headBytes      = 16 << 10
	headTime       = 10 * time.Second
	answerTime     = 2 * time.Minute // the largest file over a slow line, or a profile of some seconds
	idleTime       = time.Minute
)

// AnyName among the names has a server answer under whatever name it is asked: for figures that other programs collect
// under names of their own, on an address that is open to everybody anyway.
const AnyName = "*"

// Listen listens at host:port, port 0 is one that is free; at is where that is. Its errors say what to do.
func Listen(address string) (l net.Listener, at netip.AddrPort, err error) {
	if l, err = net.Listen("tcp", address); err != nil {
		return nil, at, explained(err)
	}
	return netutil.LimitListener(l, connectionsMax), l.Addr().(*net.TCPAddr).AddrPort(), nil
}

// explained says what to do about an address that can't be listened at.
func explained(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.New("this port is in use: name another one, or 0 for any that is free")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return errors.New("this machine has no such address")
	case errors.Is(err, syscall.EACCES):
		return errors.New("ports below 1024 are for the system: name another one")
	}
	return err
}

// Open tells whether others than this machine reach an address.
func Open(at netip.AddrPort) bool { return !at.Addr().Unmap().IsLoopback() }

// Names are those under which a server that listens at host:port may be asked, besides addresses and localhost: the
// host, and where the address is open to others this machine's name.
func Names(address string, at netip.AddrPort) (names []string) {
	if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
		names = append(names, host)
	}
	if own, err := os.Hostname(); err == nil && Open(at) {
		names = append(names, own)
	}
	return names
}

// New is a server of h, which is asked under one of names, an address, or localhost.
func New(h http.Handler, names ...string) *http.Server {
	return &http.Server{Handler: guard(h, names), ReadHeaderTimeout: headTime, ReadTimeout: headTime,
		WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
}

// policy is what a browser may do with what it gets from here: load what is here, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// guard refuses what no reader asks for, before anything is looked at.
func guard(next http.Handler, names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		if !Allowed(r.Host, names) {
			http.Error(w, fmt.Sprintf("found the host %.100q, want an address, localhost, or the name that the server "+
				"was started with: start it with NAME:PORT", r.Host), http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Allowed tells whether a page at this host may be one of ours. A page of somebody else reaches us under a name of
// its own that leads here (DNS rebinding), never under an address or localhost.
func Allowed(host string, names []string) bool {
	if slices.Contains(names, AnyName) {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(names, func(n string) bool { return n != "" && strings.EqualFold(n, name) })
}
