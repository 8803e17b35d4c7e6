// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// What workers say about their own time, against what is known of a model whose node 2, on
// worker 1, takes a millisecond for every call: worker 1 works for as long at least, and
// uses no processor meanwhile; worker 0 waits for it.
func TestFiguresOfASlowWorker(t *testing.T) {
	for _, transport := range transports() {
		cfg := config(transport, 2, launchtest.Scenario(4, 20, trouble(2, 0, launchtest.Slow)))
		cfg.Tuning.Wait = "park"
		cfg.Replications = 2
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		slow := float64(tokens(t, out).ByNode[2]) * 1e-3 / 2 // more than one token may come at once
		for w, s := range out.Workers {
			sum := s.WorkingSeconds + s.BlockedSeconds + s.RoomSeconds + s.ReportSeconds
			if math.Abs(sum-s.WallSeconds) > 1e-6 || s.WallSeconds > 1.01*out.WallSeconds+0.05 {
				t.Errorf("%s: worker %d: %+v don't add up, or are more than the %v s of the run", transport, w,
					s.Stats, out.WallSeconds)
			}
		}
		fast, busy := out.Workers[0], out.Workers[1]
		if busy.WorkingSeconds < slow || fast.BlockedSeconds < slow/2 ||
			fast.BlockedSeconds < fast.WorkingSeconds || busy.BlockedSeconds > busy.WorkingSeconds {
			t.Errorf("%s: calls of %v s on worker 1: %+v, %+v", transport, slow, fast.Stats, busy.Stats)
		}
		if fast.Parks == 0 || fast.Sent != busy.Received || fast.Received != busy.Sent || fast.Promises == 0 ||
			busy.Promises == 0 {
			t.Errorf("%s: %+v, %+v", transport, fast.Stats, busy.Stats)
		}
		if cpu := fast.CPUSeconds + busy.CPUSeconds; cpu <= 0 || transport == TransportShm &&
			busy.CPUSeconds > busy.WorkingSeconds {
			t.Errorf("%s: %v s of processor time: %+v", transport, cpu, busy.Stats)
		}
	}
}

// A worker alone never waits.
func TestFiguresOfOneWorker(t *testing.T) {
	for _, transport := range transports() {
		out, err := run(t, config(transport, 1, launchtest.Scenario(4, 200, "")))
		if err != nil {
			t.Fatal(err)
		}
		s := out.Workers[0].Stats
		// One look finds that nothing is left: that is all it may wait.
		if s.BlockedSeconds > 0.05*s.WallSeconds+0.02 ||
			s.RoomSeconds+float64(s.FullWaits+s.Parks+s.Promises+s.Sent+s.Received+s.IdleJumps) != 0 {
			t.Errorf("%s: %+v", transport, s)
		}
	}
}
