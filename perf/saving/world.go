// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
)

// world is a run of PHOLD at the end of a leg, and all that it saves there.
type world struct {
	model  *phold.Model
	plan   *node.Plan
	engine *node.Engine
	until  float64

	nodes, pending []byte // records of all nodes, as chunks have them
	events         int    // that are pending
	space          []byte // for what a loop encodes
	copied         node.PendingCopy
	bare           bareState
	store          stored
}

const seed = 7

// newWorld runs until the nodes have handled a few events each.
func newWorld(nodes int) (*world, error) {
	p := phold.Defaults()
	p.LPs, p.Events, p.Payload, p.End = nodes, perNode, 16, 1e9
	w := &world{model: phold.New(p)}
	var err error
	if w.plan, err = node.NewPlan(w.model.Graph(), make([]int32, nodes), 0, 1); err != nil {
		return nil, err
	}
	if w.engine, err = node.NewEngine(w.plan, w.config(nil)); err != nil {
		return nil, err
	}
	if _, err = w.engine.Run(20*nodes, math.Inf(1)); err != nil {
		return nil, err
	}
	w.until = math.Nextafter(w.engine.Next().Epoch, math.Inf(1))
	w.engine.SetUntil(w.until)
	if _, err = w.engine.Run(math.MaxInt, math.Inf(1)); err != nil {
		return nil, err
	}
	var unused watch
	if _, err = w.encodeNodes(&unused); err != nil {
		return nil, err
	}
	w.nodes = bytes.Clone(w.space)
	if w.events, err = w.encodePending(&unused); err != nil {
		return nil, err
	}
	w.pending = bytes.Clone(w.space)
	if err = w.checkBare(); err == nil {
		err = w.openStore()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) config(r *node.Resume) node.Config {
	return node.Config{Model: w.model, Seed: seed, Horizon: w.model.Horizon(), Resume: r}
}

// checkBare refuses bare loops that don't do the same.
func (w *world) checkBare() error {
	var unused watch
	for _, l := range []struct {
		decode, encode timed
		want           []byte
	}{{w.bareDecodeNodes, w.bareEncodeNodes, w.nodes}, {w.bareDecodePending, w.bareEncodePending, w.pending}} {
		_, err := l.decode(&unused)
		if err == nil {
			_, err = l.encode(&unused)
		}
		if err == nil && !bytes.Equal(w.space, l.want) {
			err = errors.New("saving: a bare loop's bytes aren't those of the engine")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encodeNodes encodes the states of all nodes.
func (w *world) encodeNodes(t *watch) (_ int, err error) {
	out := w.space[:0]
	t.start()
	for n := range w.plan.NumNodes() {
		at := len(out)
		if out, err = w.engine.AppendNode(checkpoint.BeginNode(out, n), n); err != nil {
			return 0, err
		}
		checkpoint.EndNode(out, at)
	}
	t.stop()
	w.space = out
	return w.plan.NumNodes(), nil
}

// encodePending encodes all that is pending.
func (w *world) encodePending(t *watch) (int, error) {
	out := w.space[:0]
	t.start()
	err := w.engine.EachPending(func(n int, encoded []byte) error {
		out = checkpoint.AppendNode(out, n, encoded)
		return nil
	})
	t.stop()
	w.space = out
	return w.model.Params().LPs * perNode, err
}

// copyPending copies all that is pending, for who encodes it beside the run: so long workers stand still for it.
func (w *world) copyPending(t *watch) (int, error) {
	t.start()
	err := w.engine.CopyPending(&w.copied)
	t.stop()
	return w.events, err
}

// load makes an engine of what each gives, and stops the watch when that has ended: making handlers isn't measured.
func (w *world) load(t *watch, each func(node, pending func(int, []byte) error) error) error {
	_, err := node.NewEngine(w.plan, w.config(&node.Resume{Epoch: w.until, Each: each}))
	return err
}

// records calls yield for each node of records.
func (w *world) records(kind checkpoint.Kind, data []byte, yield func(int, []byte) error) error {
	c := checkpoint.Chunk{Kind: kind, Nodes: uint32(w.plan.NumNodes())}
	return checkpoint.EachNode(&c, data, yield)
}

// decodeNodes loads the states of all nodes.
func (w *world) decodeNodes(t *watch) (int, error) {
	return w.plan.NumNodes(), w.load(t, func(node, _ func(int, []byte) error) error {
		t.start()
		defer t.stop()
		return w.records(checkpoint.Nodes, w.nodes, node)
	})
}

// decodePending loads all that is pending.
func (w *world) decodePending(t *watch) (int, error) {
	return w.events, w.load(t, func(node, pending func(int, []byte) error) error {
		if err := w.records(checkpoint.Nodes, w.nodes, node); err != nil {
			return err
		}
		t.start()
		defer t.stop()
		return w.records(checkpoint.Pending, w.pending, pending)
	})
}

// chunks calls yield for pieces of what is saved, as a worker's of all nodes are: each group of nodes has its own.
func (w *world) chunks(yield func(c checkpoint.Chunk, data []byte) error) error {
	nodes := w.plan.NumNodes()
	group := int(checkpoint.GroupNodes(int64(nodes)))
	for _, p := range []struct {
		kind checkpoint.Kind
		data []byte
	}{{checkpoint.Nodes, w.nodes}, {checkpoint.Pending, w.pending}} {
		from, node := 0, 0 // each node has one record
		for at := 0; at < len(p.data); {
			at += recordBytes(p.data[at:])
			if node++; node%group != 0 && at < len(p.data) {
				continue
			}
			first := (node - 1) / group * group
			c := checkpoint.Chunk{Kind: p.kind, First: uint32(first), Nodes: uint32(min(group, nodes-first))}
			if err := yield(c, p.data[from:at]); err != nil {
				return err
			}
			from = at
		}
	}
	return nil
}

func (w *world) kibis() int { return (len(w.nodes) + len(w.pending)) / kibi }

// write takes all chunks through SHA-256 and zstd.
func (w *world) write(t *watch) (int, error) {
	s := checkpoint.NewSpool(io.Discard)
	t.start()
	defer t.stop()
	return w.kibis(), w.chunks(func(c checkpoint.Chunk, data []byte) error {
		_, err := s.Add(c, data)
		return err
	})
}

// stored is a checkpoint in a directory.
type stored struct {
	dir      string
	repo     *checkpoint.Repo
	manifest *checkpoint.Manifest
	chunks   []checkpoint.Chunk
	bundle   *os.File
}

// openStore commits a checkpoint of all that is saved.
func (w *world) openStore() (err error) {
	s, ctx := &w.store, context.Background()
	if s.dir, err = os.MkdirTemp("", "disco-bench-"); err != nil {
		return err
	}
	nodes := int64(w.plan.NumNodes())
	s.repo, err = checkpoint.Create(ctx, checkpoint.NewDir(filepath.Join(s.dir, "run")), checkpoint.Run{Disco: "bench",
		Kind: phold.KindName, Text: []byte("model: phold\n"), Replications: 1, Horizon: w.model.Horizon(),
		Nodes: nodes, Simprocs: 1, GroupNodes: 1})
	if err != nil {
		return err
	}
	spool, err := os.Create(filepath.Join(s.dir, "spool"))
	if err != nil {
		return err
	}
	defer spool.Close()
	to, d := checkpoint.NewSpool(spool), s.repo.Begin()
	var added []checkpoint.Chunk
	err = w.chunks(func(c checkpoint.Chunk, data []byte) error {
		c, err := to.Add(c, data)
		added = append(added, c)
		return err
	})
	if err == nil {
		err = d.Add(spool, to.Size(), added)
	}
	s.manifest = &checkpoint.Manifest{Epoch: w.until}
	if err == nil {
		err = d.Commit(ctx, s.manifest)
	}
	if err == nil {
		err = s.repo.Chunks(ctx, s.manifest, func(c checkpoint.Chunk) error {
			s.chunks = append(s.chunks, c)
			return nil
		})
	}
	if err == nil {
		s.bundle, err = os.Create(filepath.Join(s.dir, "bundle"))
	}
	return err
}

// resume takes the checkpoint from the store to a bundle, as a launcher does, and from there into an engine, as a
// worker does.
func (w *world) resume(t *watch) (int, error) {
	s := &w.store
	t.start()
	to := io.NewOffsetWriter(s.bundle, 0)
	if err := s.repo.Bundle(context.Background(), s.manifest, to, s.chunks); err != nil {
		return 0, err
	}
	t.stop()
	return w.kibis(), w.load(t, func(node, pending func(int, []byte) error) error {
		t.start()
		defer t.stop()
		from := io.NewSectionReader(s.bundle, 0, math.MaxInt64)
		return checkpoint.ReadBundle(from, int64(w.plan.NumNodes()), func(c checkpoint.Chunk, data []byte) error {
			load := node
			if c.Kind == checkpoint.Pending {
				load = pending
			}
			return checkpoint.EachNode(&c, data, load)
		})
	})
}

func (w *world) close() {
	s := &w.store
	if s.bundle != nil {
		s.bundle.Close()
	}
	if s.repo != nil {
		s.repo.Close()
	}
	if s.dir != "" {
		if err := os.RemoveAll(s.dir); err != nil {
			fmt.Fprintln(os.Stderr, "saving:", err)
		}
	}
}
