// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"path/filepath"
)

// profileName is the file of one worker's profile in the directory that was asked for.
func profileName(index int) string { return fmt.Sprintf("worker-%d.pprof", index) }

// profilePath is the profile of worker index, absolute because a worker is free to
// change its directory; "": none is wanted.
func (cfg *Config) profilePath(index int) (string, error) {
	if cfg.Profiles == "" {
		return "", nil
	}
	path, err := filepath.Abs(filepath.Join(cfg.Profiles, profileName(index)))
	if err != nil {
		return "", fmt.Errorf("launch: profile: %w", err)
	}
	return path, nil
}
