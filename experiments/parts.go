// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
)

// goneError is about a part that isn't in its place any more.
type goneError struct{ place string }

func (e *goneError) Error() string {
	return fmt.Sprintf("it isn't in %s any more, where it was when the piece had ended: bring it back there, have "+
		"this machine reach that place, or submit the experiment again", e.place)
}

// FetchResults gives directories with the parts of pieces: those that lie elsewhere are brought to this machine, each
// into a folder of its own below dir. The command's flags say how the store is reached; one that doesn't answer is
// waited for as long as quiet says, and then named in the error. With --partial the directory of a part that isn't in
// its place any more is "", and people are told; one is there.
func FetchResults(ctx context.Context, c *app.Call, pieces []fleet.PieceID, place func(p fleet.PieceID) string,
	dir string, quiet time.Duration) (dirs []string, err error) {
	f := &fetcher{c: c, temp: dir, quiet: quiet}
	defer func() { err = errors.Join(err, f.close()) }()
	var lost error
	there := 0
	for _, p := range pieces {
		at, err := f.fetch(ctx, p, place(p))
		if err != nil {
			err = fmt.Errorf("the part of piece %v: %w", p, err)
		}
		gone := (*goneError)(nil)
		switch {
		case err == nil:
			there++
		case !errors.As(err, &gone) || !c.Bool("partial"):
			return nil, err
		default:
			at, lost = "", cmp.Or(lost, err)
			fmt.Fprintf(c.Stderr, "%s: left out: %v\n", c.Program, err)
		}
		dirs = append(dirs, at)
	}
	if there == 0 {
		return nil, lost
	}
	return dirs, nil
}
