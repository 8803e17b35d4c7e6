// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet/executor"
)

// checkpointPeriod is how often there is a checkpoint, on the wall, where a job doesn't say. A metadata store isn't
// made for what is large: there it is less often, and one that would write more than storeMost bytes is left out.
const (
	checkpointPeriod = "1m"
	storePeriod      = "2m"
	storeMost        = "4M"
)

// saving are the flags about checkpoints of a job that says nothing of them.
func saving(j *executor.Job) []string {
	asks := slices.ContainsFunc(j.Args, func(a string) bool { return strings.HasPrefix(a, "--checkpoint") })
	switch {
	case asks:
		return nil
	case strings.HasPrefix(j.Place, "etcd://"), strings.HasPrefix(j.Place, "zk://"):
		return []string{"--checkpoint", storePeriod, "--checkpoint-most", storeMost}
	}
	return []string{"--checkpoint", checkpointPeriod}
}

// savedFlags are those of run that resume wants again: all others are kept in the place.
var savedFlags = []string{"--checkpoint", "--checkpoint-at", "--checkpoint-every", "--checkpoint-most", "--keep",
	"--recover"}

// saved are the arguments of run that resume wants again.
func saved(args []string) (again []string) {
	for i := 0; i < len(args); i++ {
		name, _, whole := strings.Cut(args[i], "=")
		switch known := slices.Contains(savedFlags, name); {
		case name == "--records":
			again = append(again, args[i])
		case known && whole:
			again = append(again, args[i])
		case known && i+1 < len(args):
			again = append(again, args[i], args[i+1])
			i++
		}
	}
	return again
}

// results are what is read of the results of a run.
type results struct {
	Hash   string  `json:"trace_hash"`
	Events uint64  `json:"events"`
	Wall   float64 `json:"wall_s"`

	Figures []struct {
		Name   string     `json:"name"`
		Values []*float64 `json:"values"`
	} `json:"figures"`
	NoFigures []string `json:"no_figures"`
}

// figures are those of the replication that a job asks for; nil: it asks for none.
func (r *results) figures(j *executor.Job) map[string]float64 {
	if len(j.Figures) == 0 {
		return nil
	}
	all := map[string]float64{}
	for _, f := range r.Figures {
		if len(f.Values) == 1 && f.Values[0] != nil {
			all[f.Name] = *f.Values[0]
		}
	}
	return all
}

// event is one line of a run's --progress json.
type event struct {
	Event       string  `json:"event"`
	Text        string  `json:"text"`
	Simulated   float64 `json:"simulated_s"`
	Horizon     float64 `json:"horizon_s"`
	Events      uint64  `json:"events"`
	Checkpoints int     `json:"checkpoints"`
	Status      int     `json:"status"`
	Cause       string  `json:"cause"`
	Machine     string  `json:"machine"`
	Place       bool    `json:"place"`
	Memory      bool    `json:"memory"`
}

// parse reads a line; false: it is something else.
func (e *event) parse(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && json.Unmarshal(line, e) == nil && e.Event != ""
}
