// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/model/queueing"
)

// TestVariantsKnown: what goes on from one warmed-up state with other rates comes to what theory says of these rates,
// and not of those of the run that was saved: M/M/1 and M/M/2.
func TestVariantsKnown(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "queue.yml"), filepath.Join(dir, "store")
	text := `model: queueing
horizon: 20000
warmup: 500
stations:
  - {id: desk, arrivals: 0.5, service: {distribution: exponential, mean: 1}}
`
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	kind := queueing.Kind()
	runSaved(t, kind, "run", file, "--transport", "inproc", "--checkpoint-to", store, "--checkpoint-at", "500=warm")
	mm1 := func(rate, mean float64) float64 { return rate * mean * mean / (1 - rate*mean) }
	for _, c := range []struct {
		set  []string
		want float64 // mean wait in the queue
	}{
		{nil, mm1(0.5, 1)},
		{[]string{"arrivals=0.8"}, mm1(0.8, 1)},
		{[]string{"service.mean=1.4"}, mm1(0.5, 1.4)},
		{[]string{"servers=2", "arrivals=1.2"}, 0.5625}, // Erlang C of 2 servers at 0.6: 0.45, over 2 - 1.2
	} {
		args := []string{"resume", store, "--at", "warm", "--replications", "20", "--transport", "inproc"}
		for _, s := range c.set {
			args = append(args, "--set", "stations.desk."+s)
		}
		var got struct {
			Stations map[string]struct {
				Queue struct {
					Theory   float64
					Observed struct{ Mean, Low, High float64 }
				} `json:"time_in_queue_s"`
			}
		}
		if err := json.Unmarshal(runSaved(t, kind, args...).Results, &got); err != nil {
			t.Fatal(err)
		}
		q := got.Stations["desk"].Queue
		// Twice the interval of 95 % is one of 99.98 %; the seed is always the same.
		half := q.Observed.High - q.Observed.Low
		if math.Abs(q.Theory-c.want) > 1e-9*c.want || half > c.want/10 || math.Abs(q.Observed.Mean-c.want) > half {
			t.Errorf("%v: a wait of %+v, want %v", c.set, q, c.want)
		}
		t.Log(c.set, fmt.Sprintf("%.4f ± %.4f, theory %.4f", q.Observed.Mean, half/2, c.want))
	}
}
