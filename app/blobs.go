// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/workerproc"
)

// schemeForm is how an address begins that is no directory's path.
var schemeForm = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

// schemes are those of addresses that a process beside this one reaches.
var schemes = []string{"s3", "etcd", "zk"}

// addressForm is what an address of checkpoints may be, for messages.
const addressForm = "a directory, s3://BUCKET/PREFIX, or etcd://HOST:PORT/NAME or zk://HOST:PORT/NAME"

// watchBlobs, where it isn't nil, is given each place of a run's checkpoints, and gives what is used in its stead: for
// tests that kill processes at each step.
var watchBlobs func(checkpoint.Blobs) checkpoint.Blobs

// watched is a place as a test wants it.
func watched(b checkpoint.Blobs) checkpoint.Blobs {
	if watchBlobs != nil {
		return watchBlobs(b)
	}
	return b
}

// openBlobs opens the place for checkpoints that a flag or an argument names: a directory, which is made when something
// is written, or one in an object store or a metadata store (docs/checkpoints-s3.md), which a process beside this one
// reaches. The caller calls end when it needs the place no more; the context is only for opening it. An error is a
// mistake on the command line, or the context's.
func (p *program) openBlobs(ctx context.Context, address string) (b checkpoint.Blobs, end func() error, err error) {
	scheme := schemeForm.FindStringSubmatch(address)
	switch {
	case address == "":
		return nil, nil, usage("found no address of checkpoints, want %s", addressForm)
	case scheme == nil:
		return watched(checkpoint.NewDir(address)), func() error { return nil }, nil
	case !slices.Contains(schemes, scheme[1]):
		return nil, nil, usage("%s: found an address that begins with %s://, want %s", address, scheme[1], addressForm)
	}
	executable, err := p.beside(blobproc.Command, "reach stores")
	if err != nil {
		return nil, nil, usage("%s: %v", address, err)
	}
	reached := p.waits("reaching " + address)
	remote, err := blobproc.Start(ctx, blobproc.Config{Executable: executable, Address: address,
		Owner: blobproc.Owner(), Log: workerproc.NewLineWriter(p.stderr)})
	reached()
	var refused *blobproc.RefusedError
	switch {
	case errors.As(err, &refused), err != nil && ctx.Err() == nil:
		return nil, nil, &usageError{err.Error(), awayError{err}}
	case err != nil:
		return nil, nil, err
	}
	return watched(remote), func() error {
		remote.Close()
		return nil
	}, nil
}

// waits says what is waited for where that takes long, while no run has the screen, until over is called.
func (p *program) waits(what string) (over func()) {
	if p.terminal == nil {
		return func() {} // of a test
	}
	screen := newScreen(p.terminal, p.name)
	screen.show(p.progress, &launch.Config{})
	screen.doing(what)
	return screen.watch()
}

// giveBack has a place that is left be written by others.
func (p *program) giveBack(r *checkpoint.Repo) error {
	defer p.waits(fmt.Sprintf("giving the lock of %v back", r))()
	return r.Close()
}
