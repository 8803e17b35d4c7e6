// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"

	"github.com/disco-sim/disco/shm"
)

// shareInput puts what every worker reads into a segment, once for all processes of the run.
func (l *Launch) shareInput() error {
	if l.cfg.Transport != TransportShm {
		return nil
	}
	cfg := l.input.Segment()
	s, err := shm.Create(cfg)
	if err != nil {
		return fmt.Errorf("launch: segment %s of %d bytes: %w", cfg.Name, cfg.Size, err)
	}
	l.inputSegment = s
	return l.input.Write(s.Body())
}

// releaseInput frees the launcher's part of it. The workers have theirs, or have ended.
func (l *Launch) releaseInput() {
	if l.inputSegment != nil {
		_ = l.inputSegment.Close() // an error leaves nothing to be done
	}
}
