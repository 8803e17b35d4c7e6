// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A layout is u32 version, and runs of simprocs of one class that have consecutive ids, by rising id: each as three
// varints, how many ids are left out in front of it, how many it has less one, and its class. Classes are numbered in
// the order in which they come.
const layoutVersion = 1

// LayoutWriter makes a layout.
type LayoutWriter struct {
	chunk        []byte
	end          uint32 // behind the last run that was written
	first, count uint32 // of the run that goes on
	class        uint32
}

// Add adds a simproc. Ids rise, and a class that wasn't there yet is the next one.
func (w *LayoutWriter) Add(simproc uint32, class int) {
	if w.count > 0 && simproc == w.first+w.count && uint32(class) == w.class {
		w.count++
		return
	}
	w.flush()
	w.first, w.count, w.class = simproc, 1, uint32(class)
}

func (w *LayoutWriter) flush() {
	if w.count == 0 {
		return
	}
	w.chunk = binary.AppendUvarint(w.chunk, uint64(w.first-w.end))
	w.chunk = binary.AppendUvarint(w.chunk, uint64(w.count-1))
	w.chunk = binary.AppendUvarint(w.chunk, uint64(w.class))
	w.end, w.count = w.first+w.count, 0
}

// Chunk gives the layout, and begins the next one in the same memory; nil: it has no simprocs.
func (w *LayoutWriter) Chunk(memory []byte) (chunk []byte) {
	if w.flush(); len(w.chunk) > 0 {
		chunk = append(binary.LittleEndian.AppendUint32(memory[:0], layoutVersion), w.chunk...)
	}
	*w = LayoutWriter{chunk: w.chunk[:0]}
	return chunk
}

// Layout says which simprocs of a worker are in which class.
type Layout struct {
	Classes int
	runs    []layoutRun
}

type layoutRun struct{ first, end, class uint32 }

// DecodeLayout reads the layout of a worker of a run with so many simprocs.
func DecodeLayout(chunk []byte, simprocs int) (*Layout, error) {
	if len(chunk) < 4 || binary.LittleEndian.Uint32(chunk) != layoutVersion {
		return nil, fmt.Errorf("calls: found a layout that begins with % x, want version %d",
			chunk[:min(4, len(chunk))], layoutVersion)
	}
	l, end := &Layout{}, uint64(0)
	for rest := chunk[4:]; len(rest) > 0; {
		var run [3]uint64
		for i := range run {
			v, n := binary.Uvarint(rest)
			if n <= 0 || v > math.MaxUint32 || n > 1 && rest[n-1] == 0 {
				return nil, fmt.Errorf("calls: byte %d of a layout: found no number of at most 32 bits in as few "+
					"bytes as it takes", len(chunk)-len(rest))
			}
			run[i], rest = v, rest[n:]
		}
		first := end + run[0]
		end = first + run[1] + 1
		if end > uint64(simprocs) || run[2] > uint64(l.Classes) {
			return nil, fmt.Errorf("calls: found simprocs %d to %d of class %d in a layout, want at most %d, of class "+
				"%d at most", first, end-1, run[2], simprocs-1, l.Classes)
		}
		l.Classes = max(l.Classes, int(run[2])+1)
		l.runs = append(l.runs, layoutRun{uint32(first), uint32(end), uint32(run[2])})
	}
	if l.Classes == 0 {
		return nil, fmt.Errorf("calls: found a layout without simprocs, want at least one")
	}
	return l, nil
}
