// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"regexp"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/workerproc"
)

// schemeForm is how an address begins that is no directory's path.
var schemeForm = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

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
// is written, or s3://BUCKET/PREFIX, which a process beside this one reaches (docs/checkpoints-s3.md). The caller calls
// end when it needs the place no more; the context is only for opening it. An error is a mistake on the command line,
// or the context's.
func (p *program) openBlobs(ctx context.Context, address string) (b checkpoint.Blobs, end func() error, err error) {
	scheme := schemeForm.FindStringSubmatch(address)
	switch {
	case address == "":
		return nil, nil, usage("found no address of checkpoints, want a directory, or s3://BUCKET/PREFIX")
	case scheme == nil:
		return watched(checkpoint.NewDir(address)), func() error { return nil }, nil
	case scheme[1] != "s3":
		return nil, nil, usage("%s: found an address that begins with %s://, want a directory, or s3://BUCKET/PREFIX",
			address, scheme[1])
	}
	executable, err := p.beside(blobproc.Command, "reach object stores")
	if err != nil {
		return nil, nil, usage("%s: %v", address, err)
	}
	remote, err := blobproc.Start(ctx, blobproc.Config{Executable: executable, Address: address,
		Owner: blobproc.Owner(), Log: workerproc.NewLineWriter(p.stderr)})
	var refused *blobproc.RefusedError
	switch {
	case errors.As(err, &refused), err != nil && ctx.Err() == nil:
		return nil, nil, usage("%v", err)
	case err != nil:
		return nil, nil, err
	}
	return watched(remote), func() error {
		remote.Close()
		return nil
	}, nil
}
