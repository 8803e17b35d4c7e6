// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// handOffs is a scenario whose runs last for some dozens of looks, and whose nodes have that many bytes pending for
// them that they leave in several parts.
func handOffs(payload int, asked string) string {
	text := launchtest.Scenario(6, 12, "") + "trouble: {node: 2, at: 0, how: slow}\n"
	if payload > 0 {
		text += fmt.Sprintf("payload: %d\nasking: {file: %s, ms: 0}\n", payload, asked)
	}
	return text
}

// TestKilledAtEachStepOfAHandOff: the launcher, or a worker, is killed at each step of moving nodes, and the run goes
// on by itself, or from the last checkpoint with another number of workers: in the end there are results and trace of
// one that wasn't disturbed.
func TestKilledAtEachStepOfAHandOff(t *testing.T) {
	steps := []string{launch.StepEnd, launch.StepLook, launch.StepMove, "leave", launch.StepCame, launch.StepLoad,
		launch.StepLoaded, "arrive", launch.StepMoved, "late"}
	for i, c := range []struct {
		name, text string
		flags      []string
	}{
		{"small", handOffs(0, ""), nil},
		{"payloads", handOffs(200_000, filepath.Join(t.TempDir(), "asked")), []string{"--sync", "link", "--inline-max",
			"64", "--external-sync"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMortal(t, c.text, true, append(c.flags, "--rebalance", "0.01", "--shards", "6")...)
			m.apart = true
			for epoch := range 11 {
				m.flags = append(m.flags, "--checkpoint-at", fmt.Sprint(epoch+1))
			}
			enough := func() bool { return testing.Short() || m.goneOn >= 5 && m.recovered >= 5 }
			// The later they are killed, the more there is to go on from.
			for round := 0; round == 0 || round < 4 && !enough(); round++ {
				for k, step := range steps {
					if testing.Short() && (i+k)%3 > 0 {
						continue
					}
					again := []string{"0", "2"}[(i+k+round)%2]
					m.killedAt(handOff+step, "worker", 1+5*round+m.rnd.IntN(10), "--recover", again)
					m.killedAt(handOff+step, "launcher", 1+5*round+m.rnd.IntN(10), "--recover", "2")
				}
			}
			m.apart = false
			m.finish()
			if !enough() {
				t.Errorf("%d times on from a checkpoint, %d times back: want 5 and 5", m.goneOn, m.recovered)
			}
		})
	}
}
