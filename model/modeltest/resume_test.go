// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// counted is a pair whose events say how many came before; forget: its handlers don't save that. short ends it at once.
type counted struct {
	*pair
	forget, short bool
}

func (m *counted) Horizon() float64 {
	if m.short {
		return 5e-324
	}
	return 20.5
}

func (m *counted) NewHandler(p *node.Simproc) (node.Handler, error) {
	l, err := p.LinkTo(node.Endpoint{Node: 1 - p.NodeIndex()})
	return &counting{half: half{link: l, data: []byte{0}}, forget: m.forget}, err
}

type counting struct {
	half
	forget bool
}

func (h *counting) Handle(p *node.Simproc, events []node.Event) error {
	h.data[0]++
	return h.half.Handle(p, events)
}

func (h *counting) StateVersion() uint32 { return 1 }

func (h *counting) State(_ *node.Simproc, c *state.Codec) {
	if !h.forget {
		c.Byte(&h.data[0])
	}
}

func TestResumeEverywhere(t *testing.T) {
	ResumeEverywhere(t, &counted{pair: newPair(false)}, 1)
	err := resumeEverywhere(&counted{pair: newPair(false), forget: true}, 1)
	if err == nil || !strings.Contains(err.Error(), "of a/x") && !strings.Contains(err.Error(), "of b/x") {
		t.Errorf("a handler that forgets a field: %v", err)
	}
	var none *node.NoStateError
	if err := resumeEverywhere(newPair(false), 1); !errors.As(err, &none) || none.Handler != "*modeltest.half" {
		t.Errorf("a handler that isn't a Saver: %v", err)
	}
	err = resumeEverywhere(&counted{pair: newPair(false), short: true}, 1)
	if err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("a run without a leg: %v", err)
	}
}

// gullible takes any number for the length of what it keeps, or for an index, or writes other bytes than it has read.
type gullible struct {
	half
	how int
	n   uint64
}

func (h *gullible) Handle(p *node.Simproc, events []node.Event) error {
	if h.how == 2 {
		h.data[h.n] = 0
	}
	return h.half.Handle(p, events)
}

func (h *gullible) StateVersion() uint32 { return 1 }

func (h *gullible) State(_ *node.Simproc, c *state.Codec) {
	c.Uint64(&h.n)
	switch {
	case h.how == 0 && c.Loading():
		h.data = make([]byte, min(h.n, 1<<24)+1)
	case h.how == 1 && c.Loading():
		h.data[h.n] = 0
	case h.how == 3:
		h.n = min(h.n, 9)
	}
}

type gulled struct {
	*pair
	how int
}

func (m *gulled) Horizon() float64 { return 20.5 }

func (m *gulled) NewHandler(p *node.Simproc) (node.Handler, error) {
	l, err := p.LinkTo(node.Endpoint{Node: 1 - p.NodeIndex()})
	return &gullible{half: half{link: l, data: []byte{0}}, how: m.how}, err
}

func TestDamagedStates(t *testing.T) {
	DamagedStates(t, &counted{pair: newPair(false)}, 1)
	for how, want := range []string{"bytes of memory, want at most", "when it is loaded: ", "when it was loaded: ",
		"saved again: "} {
		_, err := damagedStates(&gulled{newPair(false), how}, 1)
		if how == 2 && invariants.Enabled { // no error of a call counts there
			want = "<nil>"
		}
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
