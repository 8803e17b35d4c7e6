// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// echo answers with what it was asked, and notes the calls.
type echo struct {
	calls []ExternalCall
	err   error
}

func (o *echo) Names() []string { return []string{"solver", "shop"} }

func (o *echo) Ask(c *ExternalCall) ([]byte, error) {
	o.calls = append(o.calls, *c)
	if o.err != nil {
		return nil, o.err
	}
	return append([]byte("echo "), c.Request...), nil
}

// asking runs one simproc, whose handler is called at 0, 1, 2 and 3, and returns its hash.
func asking(t *testing.T, out Outside, handle func(p *Simproc) error) (hash uint64, err error) {
	t.Helper()
	s := sink{func(p *Simproc, _ []Event) error {
		if p.Now() < 3 {
			if err := p.Wakeup(p.Now() + 1); err != nil {
				return err
			}
		}
		return handle(p)
	}}
	g := s.Graph()
	plan, err := NewPlan(g, []int32{0, 0}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: s, Horizon: 100, Outside: out})
	if err != nil {
		return 0, err
	}
	for n := 1; n > 0 && err == nil; {
		n, err = e.Run(100, 100)
	}
	e.Hashes(func(_ SimprocID, h uint64) { hash = mix(hash, h) })
	return hash, err
}

// A call is named by simproc, epoch and its number in the activation; its answer enters the hash.
func TestExternal(t *testing.T) {
	run := func(out *echo, request string) uint64 {
		hash, err := asking(t, out, func(p *Simproc) error {
			x, err := p.ExternalNamed("shop")
			if err != nil || x != 1 {
				return fmt.Errorf("external %d, %w", x, err)
			}
			for range int(p.Now()) {
				answer, err := p.External(x, []byte(request))
				if failed := (*ExternalError)(nil); errors.As(err, &failed) {
					continue
				}
				if err != nil || string(answer) != "echo "+request {
					return fmt.Errorf("%q, %w", answer, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	out := &echo{}
	first := run(out, "x")
	var keys []string
	for _, c := range out.calls {
		keys = append(keys, fmt.Sprintf("%d at %v: %d", c.Simproc, c.Epoch, c.Number))
	}
	want := "0 at 1: 0, 1 at 1: 0, 0 at 2: 0, 0 at 2: 1, 1 at 2: 0, 1 at 2: 1, " +
		"0 at 3: 0, 0 at 3: 1, 0 at 3: 2, 1 at 3: 0, 1 at 3: 1, 1 at 3: 2"
	if got := strings.Join(keys, ", "); got != want {
		t.Errorf("calls %s\nwant %s", got, want)
	}
	hashes := map[uint64]string{first: "an answer", run(&echo{}, "y"): "another request",
		run(&echo{err: &ExternalError{"shop", "closed"}}, "x"):   "an error",
		run(&echo{err: &ExternalError{"shop", "gone"}}, "x"):     "another error",
		run(&echo{err: &ExternalError{"shop", "echo x"}}, "x"):   "an error with the answer's text",
		run(&echo{err: &ExternalError{Text: "closed"}}, "other"): "an error to another request"}
	if len(hashes) != 6 || run(&echo{}, "x") != first {
		t.Errorf("hashes %v", hashes)
	}
}

// What ends the run, whether the handler looks at the error or not.
func TestExternalRefused(t *testing.T) {
	for text, c := range map[string]struct {
		out  Outside
		call func(p *Simproc)
	}{
		"nothing outside can be asked in this run, found external \"shop\"": {nil, nil},
		"asked external 2, which it doesn't have": {&echo{}, func(p *Simproc) {
			p.External(2, nil)
		}},
		"asked external -1": {&echo{}, func(p *Simproc) { p.External(-1, nil) }},
		"asked external \"solver\" with 16777217 bytes, at most 16777216": {&echo{}, func(p *Simproc) {
			p.External(0, make([]byte, ExternalBytesMax+1))
		}},
		"asked the outside world more than 4096 times in one activation": {&echo{}, func(p *Simproc) {
			for range ExternalCallsMax + 1 {
				p.External(0, nil)
			}
		}},
		"at epoch 1: the launcher is gone": {&echo{err: errors.New("the launcher is gone")}, func(p *Simproc) {
			p.External(0, nil)
		}},
	} {
		_, err := asking(t, c.out, func(p *Simproc) error {
			if c.call == nil {
				_, err := p.ExternalNamed("shop")
				return err
			}
			if p.Now() == 1 {
				c.call(p)
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "near/x") {
			t.Errorf("%v, want an error with %q", err, text)
		}
	}
	_, err := asking(t, &echo{}, func(p *Simproc) error {
		_, err := p.ExternalNamed("sholver")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `found external "sholver", want one of ["solver" "shop"]`) {
		t.Error(err)
	}
	var other *Simproc
	_, err = asking(t, &echo{}, func(p *Simproc) error {
		if other != nil && other != p {
			other.External(0, nil)
		}
		other = p
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "outside its own Handle") {
		t.Error(err)
	}
	full := 0
	if _, err = asking(t, &echo{}, func(p *Simproc) error {
		for range ExternalCallsMax {
			if _, err := p.External(0, nil); err != nil {
				return err
			}
			full++
		}
		return nil
	}); err != nil || full != 8*ExternalCallsMax {
		t.Errorf("%d calls, %v", full, err)
	}
}
