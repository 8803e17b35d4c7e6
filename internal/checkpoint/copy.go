// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"fmt"
	"os"
)

// Copy commits a checkpoint of another run as the one that this run begins with, which its run.json names (From): with
// the states of all nodes and what is pending, and the trace and rows before it where this run has them. So this run
// needs the other one no more. All replications begin with it; it is replication 0's, and Prune keeps it. spool is an
// empty temporary file. All that is copied is verified; in memory is one chunk.
func (r *Repo) Copy(ctx context.Context, other *Repo, m *Manifest, spool *os.File) (*Manifest, error) {
	r.mustWrite()
	if f := r.run.From; f == nil || f.Manifest != m.Check || f.Epoch != m.Epoch || r.run.Graph != other.run.Graph ||
		r.run.GroupNodes != other.run.GroupNodes {
		return nil, fmt.Errorf("checkpoint: %v of %v isn't what %s of %v names", m.Point(), other, runName, r)
	}
	var chunks []Chunk
	var buf []byte
	to := NewSpool(spool)
	err := other.Chunks(ctx, m, func(c Chunk) error {
		if c.Kind != Nodes && c.Kind != Pending && !(c.Kind == Trace && r.run.Trace) &&
			!(c.Kind == Rows && r.run.Records) {
			return nil
		}
		data, err := other.Read(ctx, m, c, buf)
		if err != nil {
			return err
		}
		buf = data
		own, err := to.Add(Chunk{Kind: c.Kind, First: c.First, Nodes: c.Nodes, From: c.From}, data)
		chunks = append(chunks, own)
		return err
	})
	if err != nil {
		return nil, err
	}
	draft := r.Begin()
	if err := draft.Add(spool, to.Size(), chunks); err != nil {
		return nil, err
	}
	own := &Manifest{Epoch: m.Epoch, Events: m.Events, Activations: m.Activations, TraceHash: m.TraceHash,
		Versions: m.Versions, Wall: Wall{Written: m.Wall.Written}}
	return own, draft.Commit(ctx, own)
}
