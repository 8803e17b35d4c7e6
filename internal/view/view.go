// SPDX-License-Identifier: Apache-2.0

// Package view shows the directory of a run's results in a browser: the graph with the load on it, outages as they
// happen, how figures develop over simulated time, and the same while the run is under way. docs/web.md says what
// there is to see, and what the server promises. It is a program of its own, disco-view, since a server of HTTP is
// half as large as all of disco-run.
//
// Guarantee: only files that the output lists are read, whatever is asked for, and nothing is written. What is read is
// bounded, and a damaged or missing file is an answer that says so, not the end of the server. A page of another site
// can't read anything through a person's browser.
//
//	d, err := view.Open("out")
//	err = view.Serve(ctx, listener, view.Handler(d, "localhost"))
package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/urfave/cli/v2"
	"golang.org/x/net/netutil"
)

// Bounds of the server.
const (
	connectionsMax = 64
	headerBytes    = 16 << 10
	headerTimeout  = 5 * time.Second
	answerTimeout  = 2 * time.Minute // the largest file over a slow line
	idleTimeout    = time.Minute
)

// Commands is web.
func Commands() []app.Command {
	return []app.Command{{
		Name: "web", Usage: "shows the results of a run in a browser", ArgsUsage: "DIR",
		Description: "DIR is what `run FILE --out DIR` has written, or is writing. It runs until Ctrl-C.",
		Examples:    []string{"web out", "web out --listen 127.0.0.1:8080"},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDR` of the view, host:port; port 0: one " +
				"that is free. Everybody who reaches an address other than the loopback's can read the results"},
		},
		Run: run,
	}}
}

func run(c *app.Call) error {
	if c.NArg() != 1 {
		return app.Usage("found %d arguments, want DIR: the directory that `run FILE --out DIR` has written", c.NArg())
	}
	d, err := Open(c.Args().First())
	if err != nil {
		return app.Usage("%v", err)
	}
	address := c.String("listen")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return app.Usage("--listen: found %.100q, want host:port, such as 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return app.Usage("--listen: found port %.20q in %.100q, want a number of 0 to 65535", port, address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w: is something else there? Name another port, or 0 for one that is free", err)
	}
	defer listener.Close()
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	names := []string{host}
	if !at.Addr().Unmap().IsLoopback() {
		if own, err := os.Hostname(); err == nil {
			names = append(names, own)
		}
		fmt.Fprintf(c.Stderr, "%s: warning: everybody who reaches %s can read the results: there is no password\n",
			c.Program, listener.Addr())
	}
	ctx, undo := c.Interruptible()
	defer undo()
	_, err = fmt.Fprintf(c.Stdout, "the view of %s is at http://%s/ until Ctrl-C\n", c.Args().First(),
		shownAddress(host, at))
	if err != nil {
		return nil // nobody would know where it is; the program reports what is wrong with standard output
	}
	return Serve(ctx, listener, Handler(d, names...))
}

// shownAddress is what a person enters in a browser.
func shownAddress(host string, at netip.AddrPort) string {
	if at.Addr().IsUnspecified() {
		if own, err := os.Hostname(); err == nil {
			host = own
		}
	} else if host == "" {
		host = at.Addr().String()
	}
	return net.JoinHostPort(host, fmt.Sprint(at.Port()))
}

// Serve answers until ctx ends, which ends answers under way, too.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(netutil.LimitListener(listener, connectionsMax))
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("the view: %w", err)
}

// policy is what a browser may do with what it gets from here: load what is here, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// guard refuses what the view has no use for, before anything is looked at. names are hosts that a browser may have
// asked for besides addresses and localhost.
func guard(next http.Handler, names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		if !allowedHost(r.Host, names) {
			http.Error(w, fmt.Sprintf("found the host %.100q, want an address, localhost, or what --listen says: "+
				"start the view with --listen %s", r.Host, "NAME:PORT"), http.StatusMisdirectedRequest)
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

// allowedHost tells whether a page at this host may be one of ours. A page of somebody else reaches us under a name of
// its own that leads here (DNS rebinding), never under an address or localhost.
func allowedHost(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	for _, n := range names {
		if n != "" && strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}
