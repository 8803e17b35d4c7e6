// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
)

// FetchResults gives directories with the parts of pieces: those that lie elsewhere are brought to this machine, each
// into a folder of its own below dir. The command's flags say how the store is reached; one that doesn't answer is
// waited for as long as quiet says, and then named in the error.
func FetchResults(ctx context.Context, c *app.Call, pieces []fleet.PieceID, place func(p fleet.PieceID) string,
	dir string, quiet time.Duration) (dirs []string, err error) {
	f := &fetcher{c: c, temp: dir, quiet: quiet}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, p := range pieces {
		at, err := f.fetch(ctx, p, place(p))
		if err != nil {
			return nil, fmt.Errorf("the part of piece %v: %w", p, err)
		}
		dirs = append(dirs, at)
	}
	return dirs, nil
}
