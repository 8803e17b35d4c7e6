// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ruled gives an experiment that isn't a pipeline a rule.
func ruled(text string) func(s *Spec) {
	return func(s *Spec) { s.Steps[0].Name, s.Steps[0].Until = "", []string{text} }
}

// comesTo has a piece of an experiment finish, with a figure, and its server let go.
func (b *bench) comesTo(id string, n int, x float64) {
	b.report(id, n, Report{State: Finished, Kept: &Kept{Hash: "h", Figures: map[string]float64{"x.mean": x}}})
	b.run()
}

// standingOf is an experiment's standing.
func (b *bench) standingOf(id string) *Standing { return &b.experiments[id].standing }

// begunOf is how many pieces of an experiment have begun, all before others.
func (b *bench) begunOf(id string) (count int) {
	b.Helper()
	for b.experiments[id].pieces[PieceID{Replication: count}] != nil {
		count++
	}
	if all := len(b.experiments[id].pieces); all != count {
		b.Errorf("%d pieces of %s have begun, want the first %d", all, id, count)
	}
	return count
}

// TestAhead: beyond what it takes by all that is known as many pieces begin as there are servers that nothing else
// wants, whoever ends first.
func TestAhead(t *testing.T) {
	b := newBench(t, 5, 2, Rules{FirstSample: 3})
	b.submit("u", 30, 1, ruled("x ± 1e-6"))
	b.submit("p", 2, 1)
	b.run()
	b.want("p", 0, Running)
	b.want("p", 1, Running)
	if n := b.begunOf("u"); n != 3+5 {
		t.Errorf("%d pieces have begun, want the first sample of 3, and 5 for which there is room", n)
	}
	b.comesTo("u", 0, 10)
	if n := b.begunOf("u"); n != 9 {
		t.Errorf("%d pieces have begun, want one more", n)
	}
	b.comesTo("u", 5, 10) // ahead of others: six are still under way, or could be
	if n := b.begunOf("u"); n != 9 {
		t.Errorf("%d pieces have begun, want no more", n)
	}
	b.comesTo("u", 1, 11)
	b.comesTo("u", 2, 12) // now it will take all 30, as far as is known
	if n := b.begunOf("u"); n != 12 {
		t.Errorf("%d pieces have begun, want as many as there are servers for", n)
	}
	if b.head != nil {
		t.Errorf("servers are reserved for what nobody may need: %+v", b.head)
	}
}

// TestEnough: with enough replications, in their order, the step has ended, and what was begun behind them is given up.
func TestEnough(t *testing.T) {
	b := newBench(t, 3, 2, Rules{FirstSample: 3})
	b.submit("u", 30, 1, ruled("x ± 10 %"))
	b.run()
	for _, n := range []int{4, 0, 2} {
		b.comesTo("u", n, 10)
	}
	if s := b.standingOf("u"); len(s.Enough) > 0 || s.Ended {
		t.Errorf("found %+v, and replication 1 hasn't ended", s)
	}
	b.comesTo("u", 1, 10)
	for range 5 {
		b.run()
	}
	s := b.standingOf("u")
	if !slices.Equal(s.Enough, []Enough{{0, 3}}) || !s.Ended || s.Status != StatusFinished || s.Failed > 0 ||
		s.Pieces[Finished] != 4 || s.Pieces[Canceled] != 26 {
		t.Errorf("found %+v, want it finished with the first 3", s)
	}
	b.want("u", 4, Finished)
	b.want("u", 3, Canceled)
	if err := b.piece("u", 3).Error; err == nil || err.Type != ErrorEnough {
		t.Errorf("found %+v, want %s", err, ErrorEnough)
	}
	e := Experiment{ID: "u", Spec: &b.experiments["u"].Spec, Wish: &Wish{Want: WantRun}, Standing: s}
	if slices.Contains(e.Allowed(), doRetry) {
		t.Errorf("found %q, want nothing that can be retried", e.Allowed())
	}
}

// TestEnoughNever: where the rule isn't met all replications count; one that fails before it is ends the step as a
// failure, also where others behind it have ended, and a retry goes on.
func TestEnoughNever(t *testing.T) {
	b := newBench(t, 3, 2, Rules{FirstSample: 3})
	b.submit("all", 4, 1, ruled("x ± 1e-6"))
	b.run()
	for n := range 4 {
		b.comesTo("all", n, float64(n))
	}
	if s := b.standingOf("all"); len(s.Enough) > 0 || !s.Ended || s.Status != StatusFinished {
		t.Errorf("found %+v, want it finished with all", s)
	}
	b.submit("f", 30, 1, ruled("x ± 1e-6"))
	b.run()
	b.comesTo("f", 3, 1)
	b.report("f", 1, Report{State: Failed, Error: &Error{Type: ErrorModel, Message: "a negative delay"}})
	b.run()
	if s := b.standingOf("f"); s.Ended || s.Status != StatusActive {
		t.Errorf("found %+v: replication 0 may be enough yet", s)
	}
	b.comesTo("f", 0, 1)
	for range 5 {
		b.run()
	}
	if s := b.standingOf("f"); !s.Ended || s.Status != StatusFailed || s.Failed != 1 || len(s.Enough) > 0 {
		t.Errorf("found %+v, want it failed", s)
	}
	if err := b.piece("f", 2).Error; err == nil || !strings.Contains(err.Message, "replication 1 has failed") {
		t.Errorf("piece 2: found %+v, want that replication 1 has failed", err)
	}
	b.PutWish("f", Wish{Number: 2, Want: WantRun, Priority: Normal, Retry: 1})
	for range 5 {
		b.run()
	}
	b.want("f", 1, Running)
	b.want("f", 2, Running)
	b.want("f", 3, Finished)
}

// TestUnknownFigures: an end that doesn't say what the replication comes to is tried again elsewhere; what another
// build of the leader has taken has all replications simulated.
func TestUnknownFigures(t *testing.T) {
	b := newBench(t, 2, 1, Rules{FirstSample: 3})
	b.submit("u", 30, 1, ruled("x ± 10 %"))
	b.run()
	at := b.piece("u", 0).Gang[0].Member
	b.report("u", 0, Report{State: Finished, Kept: &Kept{Hash: "h"}})
	b.decide(time.Second)
	b.want("u", 0, Held)
	if p := b.piece("u", 0); !slices.Contains(p.Fault, at) || !strings.Contains(p.Error.Message, "figures") {
		t.Errorf("found %+v, want %s at fault", p.Piece, at)
	}
	b = newBench(t, 8, 1, Rules{FirstSample: 3})
	b.submit("u", 5, 1, ruled("x ± 10 %"))
	b.PutPiece("u", PieceID{}, Piece{State: Finished, Attempt: 1, Kept: &Kept{Hash: "h"}})
	b.run()
	for n := 1; n < 5; n++ {
		b.comesTo("u", n, 10)
	}
	if s := b.standingOf("u"); len(s.Enough) > 0 || !s.Ended || s.Pieces[Finished] != 5 {
		t.Errorf("found %+v, want all finished", s)
	}
}
