// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
)

// Several sets over several machines, from their plans to their ends: all arrives, once and in order, each trace before
// its "done" and everything before the exit, also over connections that end at any message.
func TestCourse(t *testing.T) {
	for _, machines := range []int{1, 3} {
		for _, most := range []int{0, 3, 12, 60} {
			t.Run(fmt.Sprint(machines, " machines, cut within ", most), func(t *testing.T) {
				t.Parallel()
				if most > 0 && testing.Short() {
					most = 60
				}
				course(t, machines, most)
			})
		}
	}
}

func course(t *testing.T, machines, most int) {
	rng := rand.New(rand.NewPCG(1, uint64(most)))
	cuts := func() int { return 2 + rng.IntN(most) }
	if most == 0 {
		cuts = nil
	}
	r := newRig(t, machines, cuts)
	defer r.close()
	on := []int32{0, 0, int32(min(1, machines-1)), int32(machines - 1)}
	sets := []*made{r.newSet(0, 3<<20, on...), r.newSet(1, 12345, on[3])}
	for _, s := range sets {
		defer s.close()
	}
	r.to.atExit = func(set, w int) {
		m := sets[set]
		if got := m.number(w); got != 1<<40 {
			t.Errorf("the board of worker %d of set %d shows %d at its exit", w, set, got)
		}
		if w%2 == 0 && !bytes.Equal(whole(m.prof[w]), traceOf(w, -1)) {
			t.Errorf("the profile of worker %d of set %d isn't whole at its exit", w, set)
		}
	}
	for set, s := range sets {
		want := make([]string, 0, 3)
		for m := range machines {
			if slices.Contains(s.order.Plan.Machine, int32(m)) {
				want = append(want, fmt.Sprintf("h%d: pages of %d", m, m))
				if got := r.sites[m].sets[set].order; !bytes.Equal(got.Input.Body(), s.order.Input.Body()) ||
					got.Boards != nil || got.Set != set {
					t.Errorf("machine %d has another order of set %d", m, set)
				}
			}
		}
		if s.remark != strings.Join(want, "; ") {
			t.Errorf("remark %q, want %q", s.remark, want)
		}
		for w := range s.order.Plan.Machine {
			s.start(w, w%2 == 0)
		}
		s.ws.Release()
	}
	for replication := range 3 {
		for set, s := range sets {
			for w := range s.order.Plan.Machine {
				s.ask(w, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{Replication: replication}},
					worker.TypeReady)
				s.ask(w, &worker.Message{Type: worker.TypeGo}, worker.TypeDone)
				for _, moved := range []bool{false, true} {
					s.ask(w, &worker.Message{Type: worker.TypeLeg, Leg: &worker.Leg{Moved: moved}}, worker.TypeReady)
				}
				if w%2 == 0 {
					var want []byte
					for n := range replication + 1 {
						want = append(want, traceOf(w, n)...)
					}
					if got := whole(s.trace[w]); !bytes.Equal(got, want) {
						t.Errorf("worker %d of set %d is done, and its trace has %d bytes of %d", w, set, len(got),
							len(want))
					}
				}
			}
		}
	}
	for set, s := range sets {
		for w, m := range s.order.Plan.Machine {
			if err := worker.WriteMessage(s.ours[w], &worker.Message{Type: worker.TypeExit}); err != nil {
				t.Error(err)
			}
			exit, lanes := r.to.awaitExit(set, w), r.to.lanes[[2]int{set, w}]
			if !exit.OK || exit.Text != "ended" || len(lanes) != 1 {
				t.Errorf("%+v", exit)
			}
			want := fmt.Sprintf("replication 0 of %d\nreplication 1 of %d\nreplication 2 of %d\nbye\n", w, w, w)
			if got := string(r.to.outputs[[2]int{set, w}]); got != want {
				t.Errorf("worker %d of set %d has written %q, want %q", w, set, got, want)
			}
			ws := r.sites[m].sets[set]
			var own []string
			for _, c := range ws.controls {
				if strings.HasPrefix(c, fmt.Sprint(w, " ")) {
					own = append(own, strings.TrimPrefix(c, fmt.Sprint(w, " ")))
				}
			}
			var each []string
			for range 3 {
				each = append(each, "prepare true", "go false", "leg false", "leg true")
			}
			if !slices.Equal(own, append(each, "exit false")) || ws.released != 1 {
				t.Errorf("before messages to worker %d: %q, released %d times", w, own, ws.released)
			}
			if ws.all[w].spec.Threads != w+1 {
				t.Errorf("worker %d has %d threads", w, ws.all[w].spec.Threads)
			}
		}
	}
	if r.to.ends() {
		t.Errorf("failed %v, lost %v", r.to.failed, r.to.lost)
	}
}
