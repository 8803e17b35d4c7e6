// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
)

// TestTurns: in the checked build a goroutine that sends while another one hasn't flushed is found, whatever both call,
// before it can spoil a message; behind Flush it is anybody's turn.
func TestTurns(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("checked build only")
	}
	frame := func(s *Session) { s.Frame(Header{Type: Control}, 8) }
	state := func(s *Session) { s.State(Header{Type: Ping}, 8) }
	flush := func(s *Session) { _ = s.Flush() }
	for i, first := range []func(*Session){frame, state} {
		for k, second := range []func(*Session){frame, state, flush, func(s *Session) { s.Shrink(8) }} {
			cfg := config(1, 0)
			cfg.Apply, cfg.Changed, cfg.Acked = func(Header, []byte) error { return nil }, func(State) {}, func() {}
			s, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			elsewhere := func(f func(*Session)) (found any) {
				done := make(chan any)
				go func() {
					defer func() { done <- recover() }()
					f(s)
				}()
				return <-done
			}
			first(s)
			found, _ := elsewhere(second).(string)
			if want := "send to machine 0 (express) at a time"; !strings.Contains(found, want) {
				t.Errorf("%d before %d: found %q, want %q", i, k, found, want)
			}
			first(s)
			flush(s)
			if found := elsewhere(flush); found != nil {
				t.Errorf("behind Flush: %v", found)
			}
			s.Close("done")
		}
	}
}
