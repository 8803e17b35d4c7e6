// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"regexp"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// schemeForm is how an address begins that is no directory's path.
var schemeForm = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*)://`)

// openBlobs opens the place for checkpoints that a flag or an argument names: a directory, which is made when something
// is written. The caller calls end when it needs the place no more; the context is only for opening it. An error is a
// mistake on the command line.
func (p *program) openBlobs(_ context.Context, address string) (b checkpoint.Blobs, end func() error, err error) {
	switch scheme := schemeForm.FindStringSubmatch(address); {
	case address == "":
		return nil, nil, usage("found no address of checkpoints, want a directory")
	case scheme != nil:
		return nil, nil, usage("%s: found an address that begins with %s://, want a directory", address, scheme[1])
	}
	return checkpoint.NewDir(address), func() error { return nil }, nil
}
