// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// packedMax is how many bytes of a packed scenario a field of the input has.
const packedMax = math.MaxUint32

// pack writes down the scenario for workers where its kind can: then they don't read the file.
func (l *Launch) pack() error {
	if l.input.Kind == "" {
		return nil
	}
	packed, err := l.scenario.(scenario.Packer).Pack(nil)
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	if len(packed) > packedMax { // workers read the file
		l.input.Kind = ""
		return nil
	}
	l.input = worker.Input{File: l.input.File, Kind: l.input.Kind, Packed: packed, Placed: l.input.Placed}
	return nil
}

// largeInput is how many bytes of input are worth a collection of garbage.
const largeInput = 16 << 20

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
	if err := l.input.Write(s.Body()); err != nil {
		return err
	}
	// The workers have theirs. Nothing of a large one is to stay in this process for as long as they run.
	l.input, l.structure = worker.Input{}, l.structure.Outline()
	if cfg.Size >= largeInput {
		debug.FreeOSMemory()
	}
	return nil
}

// releaseInput frees the launcher's part of it. The workers have theirs, or have ended.
func (l *Launch) releaseInput() {
	if l.inputSegment != nil {
		_ = l.inputSegment.Close() // an error leaves nothing to be done
	}
}
