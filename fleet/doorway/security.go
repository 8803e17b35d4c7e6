// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/infile"
)

// Security is how a door and who reaches it know each other, as flags say it.
type Security struct {
	Folder   string // of --door-tls, which `certs issue` made
	Insecure int    // how often --insecure was given: once is for the loopback, twice for anywhere
	// TokenFile has the token by which a door is to know who asks; "" is none. Tokens says that a door takes those.
	TokenFile string
	Tokens    bool
}

// Limits of tokens.
const (
	tokenLeast = 20 // characters of those that are made at random
	tokenMost  = 200
)

// check holds an address against what is allowed; plain tells that there is no TLS.
func (s *Security) check(address string) (host string, plain bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return "", false, fmt.Errorf("found the address %.300q, want HOST:PORT", address)
	}
	ip, notNumeric := netip.ParseAddr(host)
	loopback := host == "localhost" || notNumeric == nil && ip.IsLoopback()
	switch {
	case s.Folder != "" && s.Insecure > 0:
		return "", false, errors.New("found --door-tls and --insecure, want one of them")
	case s.Folder != "":
		return host, false, nil
	case s.Insecure == 0:
		return "", false, errors.New("found neither --door-tls nor --insecure: want the folder that `certs issue` " +
			"made, or, on a loopback address, --insecure")
	case !loopback && s.Insecure < 2:
		return "", false, fmt.Errorf("found --insecure with the address %.300s, which others may reach: want "+
			"--door-tls, or a loopback address; --insecure twice means it", address)
	case !loopback && (s.TokenFile != "" || s.Tokens):
		return "", false, fmt.Errorf("a token would be sent to %.300s for everybody to read: want --door-tls", address)
	}
	return host, true, nil
}

// Serves is the TLS of a door at an address, nil where there is none, and how it knows users by their certificates.
func (s *Security) Serves(address string) (*tls.Config, Peer, error) {
	_, plain, err := s.check(address)
	if err != nil || plain {
		return nil, nil, err
	}
	id, err := certs.Load(s.Folder)
	if err == nil {
		err = id.CheckServes()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--door-tls: %w", err)
	}
	config := id.Door(s.Tokens)
	config.NextProtos = []string{"http/1.1"}
	return config, id.Peer, nil
}

// Peer is the user at the other side of a connection, by its certificate; "" is a machine, or nobody.
type Peer func(*tls.ConnectionState) (user string, err error)

// reach is how somebody reaches a door.
type reach struct {
	config  *tls.Config // nil: no TLS
	token   string      // "": none
	explain func(err error, machine string) error
}

// reaches is how who comes reaches a door at an address.
func (s *Security) reaches(address string) (*reach, error) {
	host, plain, err := s.check(address)
	if err != nil {
		return nil, err
	}
	r := &reach{explain: func(err error, machine string) error { return fmt.Errorf("the door %s: %w", machine, err) }}
	if s.TokenFile != "" {
		if r.token, err = readToken(s.TokenFile); err != nil {
			return nil, err
		}
	}
	if plain {
		return r, nil
	}
	if s.TokenFile != "" && !certs.HasOwn(s.Folder) {
		r.config, err = certs.Authority(s.Folder, host)
	} else {
		var id *certs.Identity
		if id, err = certs.Load(s.Folder); err == nil {
			r.config, r.explain = id.Client(host), id.Explain
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--door-tls: %w", err)
	}
	r.config.NextProtos = []string{"http/1.1"}
	return r, nil
}

// unlike tells whether an error says that the two sides don't agree about TLS, or don't trust each other: trying again
// changes nothing.
func unlike(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	text := err.Error()
	return untrusted || plain || strings.Contains(text, "remote error: tls: ") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// CheckToken refuses what can't be a token.
func CheckToken(token string) error {
	bad := strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
	if n := len(token); n < tokenLeast || n > tokenMost || bad {
		return fmt.Errorf("found a token of %d bytes, want %d to %d characters of ASCII without spaces, made at "+
			"random: `store roles --tokens DIR` makes one", n, tokenLeast, tokenMost)
	}
	return nil
}

// readToken reads a file that nobody else may read.
func readToken(file string) (string, error) {
	text, err := infile.Read(file, infile.Kind{Name: "a file with a token", BytesMax: tokenMost + 2})
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("--token-file %s can be read by others: chmod 600 it", file)
	}
	token := strings.TrimRight(string(text), "\r\n")
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("--token-file %s: %w", file, err)
	}
	return token, nil
}
