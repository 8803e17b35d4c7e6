// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// heavy is a model of which one node saves something more: so many bytes, or an error.
type heavy struct {
	*phold.Model
	more int
	err  string
}

func (h *heavy) NewHandler(p *node.Simproc) (node.Handler, error) {
	inner, err := h.Model.NewHandler(p)
	if err != nil || p.NodeIndex() != 20 {
		return inner, err
	}
	return &heavyNode{inner.(node.Saver), h}, nil
}

type heavyNode struct {
	node.Saver
	heavy *heavy
}

func (n *heavyNode) State(p *node.Simproc, c *state.Codec) {
	n.Saver.State(p, c)
	if n.heavy.err != "" {
		c.Fail("%s", n.heavy.err)
	}
	data := make([]byte, n.heavy.more)
	c.Bytes(&data)
}

// A node that is too large to be saved costs this checkpoint, not the run; the next one is made when it is smaller.
func TestSaveNodeThatIsTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("256 MiB")
	}
	for _, direct := range []bool{false, true} {
		model := &heavy{Model: few(64)}
		e, plan := oneEngine(t, model, make([]int32, 64), 0, nil)
		k := newCommitter(t, 64)
		s := k.saver(plan, chunkBytes)
		runUntil(t, e, 3)
		save(t, s, e, &Save{Epoch: 3, Direct: direct})
		k.commit(3)
		runUntil(t, e, 10)
		model.more = 256 << 20
		save(t, s, e, &Save{Epoch: 10, Committed: 3, Direct: direct})
		st := k.stored[0]
		for _, want := range []string{"node: lp20: its state has 2684", "at most 268435456 are allowed", "save less",
			"--checkpoint-ends"} {
			if !strings.Contains(st.Error, want) || len(st.Chunks) > 0 || !st.Last || st.Epoch != 10 {
				t.Errorf("direct %v: found %q with %d chunks, want %q and none", direct, st.Error, len(st.Chunks), want)
			}
		}
		if strings.Contains(st.Error, "temporary file") {
			t.Errorf("direct %v: %s: it is no fault of the file", direct, st.Error)
		}
		k.stored[0] = Stored{}
		model.more = 0
		runUntil(t, e, 11)
		save(t, s, e, &Save{Epoch: 11, Committed: 3, Direct: direct})
		k.commit(11)
		other, _ := oneEngine(t, model, make([]int32, 64), 0, resume(&Prepare{Epoch: 11}, k.bundle(), 64))
		other.SetUntil(11)
		if got, want := encoded(t, other), encoded(t, e); len(got) != len(want) || got["node 20"] != want["node 20"] {
			t.Errorf("direct %v: what was loaded differs", direct)
		}
	}
}

// What a handler says of its own state ends the run.
func TestSaveNodeThatFails(t *testing.T) {
	for _, direct := range []bool{false, true} {
		model := &heavy{Model: few(64), err: "out of paper"}
		e, plan := oneEngine(t, model, make([]int32, 64), 0, nil)
		s := newCommitter(t, 64).saver(plan, 300)
		runUntil(t, e, 3)
		err := s.save(e, &Save{Epoch: 3, Direct: direct}, nil)
		if !errors.Is(err, node.ErrModel) || !strings.Contains(err.Error(), "out of paper") {
			t.Errorf("direct %v: found %v, want the model's error", direct, err)
		}
	}
}
