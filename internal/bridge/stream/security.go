// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	"github.com/disco-sim/disco/internal/certs"
)

// Security is how machines know each other: by certificates, or not at all.
type Security struct {
	id       *certs.Identity // nil: plain text
	anywhere bool            // plain text also away from the loopback
}

// NewSecurity is what --tls-dir, and the number of times that --insecure was given, ask for. An error is a mistake in
// these.
func NewSecurity(tlsDir string, insecure int) (*Security, error) {
	switch {
	case tlsDir != "" && insecure > 0:
		return nil, errors.New("found --tls-dir and --insecure, want one of them")
	case tlsDir != "":
		id, err := certs.Load(tlsDir)
		if err == nil {
			err = id.CheckServes()
		}
		if err != nil {
			return nil, fmt.Errorf("--tls-dir: %w", err)
		}
		return &Security{id: id}, nil
	case insecure > 0:
		return &Security{anywhere: insecure > 1}, nil
	}
	return nil, errors.New("found neither --tls-dir nor --insecure: want the folder that `certs issue` made for this " +
		"machine, or, on a loopback address, --insecure")
}

// CheckAddress holds an address to dial, or to listen at, against what is allowed. No name is looked up.
func (s *Security) CheckAddress(address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("found the address %.300q, want HOST:PORT", address)
	}
	if s.id != nil || s.anywhere || OnLoopback(address) {
		return nil
	}
	return fmt.Errorf("found --insecure with the address %.300s, which others may reach: want --tls-dir, or a "+
		"loopback address; --insecure twice means it", address)
}

// OnLoopback tells whether an address, HOST:PORT, is one of this machine alone. No name is looked up.
func OnLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	a, notNumeric := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notNumeric == nil && a.IsLoopback())
}

// checkEnds holds a connection against what is allowed.
func (s *Security) checkEnds(c net.Conn) error {
	if s.id != nil || s.anywhere {
		return nil
	}
	for _, end := range []net.Addr{c.LocalAddr(), c.RemoteAddr()} {
		if a, err := netip.ParseAddrPort(end.String()); err != nil || !a.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%v to %v isn't a connection over the loopback, and --insecure was given once",
				c.LocalAddr(), c.RemoteAddr())
		}
	}
	return nil
}

// server does TLS with a connection that has come in, which is closed if that takes too long.
func (s *Security) server(c net.Conn, protocols ...string) (net.Conn, error) {
	if err := s.checkEnds(c); err != nil || s.id == nil {
		return c, err
	}
	cfg := s.id.Server()
	cfg.NextProtos = protocols
	t := tls.Server(c, cfg)
	if err := t.Handshake(); err != nil {
		return nil, s.id.Explain(err, c.RemoteAddr().String())
	}
	return t, nil
}

// client does TLS with a connection to an address, which has a deadline.
func (s *Security) client(c net.Conn, address string) (net.Conn, error) {
	if err := s.checkEnds(c); err != nil || s.id == nil {
		return c, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	t := tls.Client(c, s.id.Client(host))
	return t, t.Handshake() // its caller explains
}

// isGone tells whether an error is that the other side has closed a connection.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain puts into words why a connection to an address came to nothing.
func (s *Security) explain(err error, address string) error {
	gone := isGone(err)
	switch {
	case gone && s.id != nil:
		return fmt.Errorf("machine %s has closed the connection (%w): it isn't in this run now, or is too busy "+
			"to take a connection within %v", address, err, preambleLimit)
	case gone:
		return fmt.Errorf("machine %s has closed the connection (%w): it isn't in this run now, expects TLS, "+
			"which is --tls-dir here, or is too busy to take a connection within %v", address, err, preambleLimit)
	case s.id != nil:
		return s.id.Explain(err, address)
	}
	return fmt.Errorf("machine %s: %w", address, err)
}
