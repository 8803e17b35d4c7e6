// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/internal/outfile"
)

// profileName is the file of one worker's profile in the directory that was asked for.
func profileName(index int) string { return fmt.Sprintf("worker-%d.pprof", index) }

// createProfile begins the profile of the set's worker index, which release ends; nil: none is wanted.
func (ws *workerSet) createProfile(index int) (*os.File, error) {
	dir := ws.launch.cfg.Profiles
	if dir == "" {
		return nil, nil
	}
	out, err := outfile.Create(filepath.Join(dir, profileName(ws.number(index))))
	if err != nil {
		return nil, fmt.Errorf("launch: profile: %w", err)
	}
	ws.cleanup = append(ws.cleanup, func() { ws.launch.endProfile(out) })
	return out.File(), nil
}

// endProfile keeps a profile, but of a run that was refused. A worker that was killed, or whose model panicked, has
// written nothing.
func (l *Launch) endProfile(out *outfile.File) {
	if info, err := out.File().Stat(); err != nil || info.Size() == 0 || l.refused {
		out.Abort()
		return
	}
	if err := out.Commit(); err != nil {
		l.note(fmt.Sprintf("profile: %v", err))
	}
}
