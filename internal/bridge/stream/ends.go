// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Listen opens an agent's port, at an address that is allowed.
func Listen(address string, s *Security) (net.Listener, error) {
	if err := s.CheckAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return l, nil
}

// Way makes the way by which an agent hands connections over to the process of a run: its own end, for Splitter.Add,
// and the file that the process gets, for HandedFile.
func Way() (agent *net.UnixConn, bridge *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("stream: the way to a bridge: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "way"), os.NewFile(uintptr(pair[1]), "way")
	if agent, err = unixConn(ours); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return agent, theirs, nil
}

// HandedFile is [Handed] of a file that Way has made. The file is closed.
func HandedFile(f *os.File) (net.Listener, error) {
	c, err := unixConn(f)
	if err != nil {
		return nil, err
	}
	return Handed(c), nil
}

// unixConn makes a connection of a file, which is closed.
func unixConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("stream: the way to a bridge: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("stream: the way to a bridge is a %T, want a Unix socket", c), c.Close())
	}
	return u, nil
}
