// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
)

// counted counts how often something is read.
type counted struct {
	*checkpointtest.Mem
	gets int
}

func (c *counted) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	c.gets++
	return c.Mem.Get(ctx, name, from, size, buf)
}

// Chunks that lie side by side in a pack are read together, others each by itself; both come as they are, and one that
// was cut short is named.
func TestAdjacent(t *testing.T) {
	blobs := &counted{Mem: checkpointtest.NewMem()}
	r, err := checkpoint.Create(ctx, blobs, newRun())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := r.Begin()
	var file bytes.Buffer
	spool := checkpoint.NewSpool(&file)
	var chunks []checkpoint.Chunk
	for group := range groups {
		c, err := spool.Add(checkpoint.Chunk{Kind: checkpoint.Nodes, First: uint32(group * groupNodes),
			Nodes: groupNodes}, content(checkpoint.Nodes, group, 1))
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	m := &checkpoint.Manifest{Epoch: 1}
	if err := errors.Join(d.Add(bytes.NewReader(file.Bytes()), spool.Size(), chunks), d.Commit(ctx, m)); err != nil {
		t.Fatal(err)
	}
	if m, err = r.Load(ctx, checkpoint.Point{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	all := collect(t, r, m)
	bundle := func(chunks []checkpoint.Chunk, gets int) error {
		t.Helper()
		var out bytes.Buffer
		blobs.gets = 0
		if err := r.Bundle(ctx, m, &out, chunks); err != nil {
			return err
		}
		if blobs.gets != gets {
			t.Errorf("%d chunks were read in %d pieces, want %d", len(chunks), blobs.gets, gets)
		}
		n := 0
		err := checkpoint.ReadBundle(&out, newRun().Nodes, func(c checkpoint.Chunk, data []byte) error {
			if c.First != chunks[n].First || !bytes.Equal(data, content(c.Kind, int(c.First)/groupNodes, 1)) {
				return errors.New("another chunk")
			}
			n++
			return nil
		})
		if n != len(chunks) {
			t.Errorf("%d chunks of %d come back", n, len(chunks))
		}
		return err
	}
	var apart []checkpoint.Chunk
	for i := range all {
		apart = append(apart, all[len(all)-1-i])
	}
	mixed := append(apart[:3:3], all[5:]...)
	if err := errors.Join(bundle(all, 1), bundle(apart, len(apart)), bundle(mixed, 4)); err != nil {
		t.Fatal(err)
	}
	pack := all[0].Pack.Name()
	whole, err := blobs.Get(ctx, pack, 0, all[0].Pack.Bytes, nil)
	last := all[len(all)-1]
	if err == nil {
		short := whole[:last.At+1]
		err = blobs.Put(ctx, pack, bytes.NewReader(short), int64(len(short)), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	var damaged *checkpoint.DamagedError
	if err := bundle(all, 1); !errors.As(err, &damaged) || damaged.Chunk.First != last.First {
		t.Errorf("a pack that was cut short: found %v, want the chunk of node %d", err, last.First)
	}
}
