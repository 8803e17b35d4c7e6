// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// ServeStandard is Serve over standard input and output.
func ServeStandard(ctx context.Context, o HostOptions) error {
	// A write to standard output that nobody reads ends a process, unless it asks for the signal: a host has attempts
	// to end before. It isn't ignored, since what the host starts would ignore it, too.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return Serve(ctx, standard{}, o)
}

// standard is standard input and output.
type standard struct{}

func (standard) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (standard) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (standard) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
