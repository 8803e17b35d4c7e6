// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/internal/certs"
)

const loopback = "127.0.0.1"

// Certificates gives the folder of those of the loopback below a directory, and makes them where they aren't there. The
// sides of a job call it one after the other.
func Certificates(dir string) (string, error) {
	out := filepath.Join(dir, "tls")
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	authority := filepath.Join(dir, "authority")
	if err := certs.Init(authority, certs.Period(1)); err != nil {
		return "", err
	}
	return out, certs.Issue(authority, out, []string{loopback}, certs.Period(1))
}

// listenLoopback opens a free port, with TLS where there is a folder of certificates.
func listenLoopback(tlsDir string) (net.Listener, error) {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if tlsDir == "" {
		return l, nil
	}
	id, err := certs.Load(tlsDir)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return tls.NewListener(l, id.Server()), nil
}

// dialLoopback connects to it.
func dialLoopback(address, tlsDir string) (net.Conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if tlsDir == "" {
		return c, nil
	}
	id, err := certs.Load(tlsDir)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return tls.Client(c, id.Client(loopback)), nil
}
