// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/trace"
)

// TracedMost is how many records Traced gives, at most.
const TracedMost = 1000

// Traced are those of the recorded run's trace that a replication has from one epoch to another, both included, and
// that are wanted, in the total order; none where it has no trace. It is called when nothing is replayed any more.
func (p *Replay) Traced(ctx context.Context, replication int, from, to float64,
	wanted func(*trace.Record) bool) (list []trace.Record, err error) {
	m := p.To[replication]
	chunks, err := chunksOf(ctx, p.Repo, m, checkpoint.Trace)
	if err != nil {
		return nil, err
	}
	var data []byte
	for i, c := range chunks {
		// A chunk goes on to where the next one begins, which may be the same epoch.
		if c.From > to || i+1 < len(chunks) && chunks[i+1].From < from {
			continue
		}
		if data, err = p.Repo.Read(ctx, m, c, data); err != nil {
			return nil, err
		}
		if len(data)%trace.RecordBytes != 0 {
			return nil, &checkpoint.DamagedError{Where: p.Repo.String(), Name: m.Point().String(), Chunk: &c,
				Err: fmt.Errorf("found %d bytes, want a multiple of %d", len(data), trace.RecordBytes)}
		}
		var rec trace.Record
		for rest := data; len(rest) > 0 && len(list) < TracedMost; rest = rest[trace.RecordBytes:] {
			rec.Parse((*[trace.RecordBytes]byte)(rest))
			if rec.Epoch >= from && rec.Epoch <= to && wanted(&rec) {
				list = append(list, rec)
			}
		}
	}
	return list, nil
}
