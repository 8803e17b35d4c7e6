// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
)

// Bounds of run.json.
const (
	textBytesMax     = 8 << 20
	attachedBytesMax = 256 << 20
	attachedMax      = 65536
	settingsMax      = 10000
	settingBytesMax  = 64 << 10
	nameBytesMax     = 256
	fileBytesMax     = 4096
	replicationsMax  = 100000
	countMax         = 1 << 31 // nodes, simprocs
	groupNodesMax    = 1 << 31
	windowsMax       = 1 << 31
)

// Run is what a run was begun with: run.json.
type Run struct {
	Format       int        `json:"format"` // Create sets it
	ID           ID         `json:"run"`    // Create sets it where it is zero
	Disco        string     `json:"disco"`  // version
	Program      Digest     `json:"program"`
	Kind         string     `json:"kind"` // of scenario
	File         string     `json:"file"` // of the scenario, for messages
	Text         []byte     `json:"text"`
	Attached     []Attached `json:"attached"`
	Settings     []Setting  `json:"set"`
	Seed         uint64     `json:"seed,string"`
	Replications int        `json:"replications"`
	Horizon      float64    `json:"horizon_s"`
	Graph        Digest     `json:"graph"`
	Nodes        int64      `json:"nodes"`
	Simprocs     int64      `json:"simprocs"`
	GroupNodes   int64      `json:"group_nodes"` // nodes that are saved together: a power of two
	Shards       int64      `json:"shards"`      // 0: nodes don't move
	Replayable   bool       `json:"replayable"`
	Trace        bool       `json:"trace"`
	Series       bool       `json:"series,omitempty"`    // time series are recorded
	Records      bool       `json:"records,omitempty"`   // what handlers record is kept
	EndsOnly     bool       `json:"ends_only,omitempty"` // there are ends of replications, and no checkpoints
	Externals    bool       `json:"externals"`
	Only         *Only      `json:"only,omitempty"`   // nil: all replications
	From         *From      `json:"from,omitempty"`   // nil: it began at epoch 0
	Warmup       *Warmup    `json:"warmup,omitempty"` // nil: none was found, but perhaps one given
	Check        Digest     `json:"check,omitzero"`   // of all other fields: the line at the file's end
}

// Attached is a file that the scenario refers to.
type Attached struct {
	Name   string `json:"name"`
	Data   []byte `json:"data"`
	Digest Digest `json:"digest"`
}

// Setting is a field of the scenario that was set beside its file.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Only is which replications of a run are simulated here: First to Last. The others are other parts of it.
type Only struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// From is the checkpoint of another run that a run began with.
type From struct {
	Run      ID        `json:"run"`
	Epoch    float64   `json:"epoch_s"`
	Manifest Digest    `json:"manifest"` // its check
	Settings []Setting `json:"set"`
}

// Warmup is what a pilot replication found of how long a run takes to settle. Settings have it, in the place of what
// asked for it.
type Warmup struct {
	Seconds float64 `json:"seconds"`
	Method  string  `json:"method"`
	By      string  `json:"by"` // the course that took longest to settle
	Seed    uint64  `json:"seed,string"`
	Windows int64   `json:"windows"` // of that course
	Window  float64 `json:"window_s"`
}

// groupsMost is how many groups of nodes there are at most.
const groupsMost = 4096

// GroupNodes is how many of a run's nodes are saved together: the least power of two with at most 4,096 groups.
func GroupNodes(nodes int64) int64 {
	group := int64(1)
	for (nodes+group-1)/group > groupsMost {
		group *= 2
	}
	return group
}

// check says which field is out of its bounds.
func (r *Run) check() error {
	attached := int64(0)
	for i := range r.Attached {
		attached += int64(len(r.Attached[i].Data))
	}
	err := errors.Join(
		atMost("disco: bytes", int64(len(r.Disco)), nameBytesMax),
		atMost("kind: bytes", int64(len(r.Kind)), nameBytesMax),
		atMost("file: bytes", int64(len(r.File)), fileBytesMax),
		atMost("text: bytes", int64(len(r.Text)), textBytesMax),
		atMost("attached: files", int64(len(r.Attached)), attachedMax),
		atMost("attached: bytes", attached, attachedBytesMax),
		within("replications", int64(r.Replications), 1, replicationsMax),
		within("nodes", r.Nodes, 1, countMax),
		within("simprocs", r.Simprocs, 1, countMax),
		within("group_nodes", r.GroupNodes, 1, groupNodesMax),
		within("shards", r.Shards, 0, countMax),
		checkSettings("set", r.Settings))
	if err != nil {
		return err
	}
	if r.ID == (ID{}) {
		return errors.New("run: found only zeros, want 16 random bytes")
	}
	if r.GroupNodes&(r.GroupNodes-1) != 0 {
		return fmt.Errorf("group_nodes: found %d, want a power of two", r.GroupNodes)
	}
	if o := r.Only; o != nil && (o.First < 0 || o.Last < o.First || o.Last >= r.Replications) {
		return fmt.Errorf("only: found %d to %d, want some of the replications 0 to %d", o.First, o.Last,
			r.Replications-1)
	}
	if !(r.Horizon > 0) || math.IsInf(r.Horizon, 0) {
		return fmt.Errorf("horizon_s: found %v, want a finite time above 0", r.Horizon)
	}
	if f := r.From; f != nil {
		if !(f.Epoch > 0) || math.IsInf(f.Epoch, 0) {
			return fmt.Errorf("from: epoch_s: found %v, want a finite time above 0", f.Epoch)
		}
		if err := checkSettings("from: set", f.Settings); err != nil {
			return err
		}
	}
	if w := r.Warmup; w != nil {
		if err := w.check(r.Horizon); err != nil {
			return fmt.Errorf("warmup: %w", err)
		}
	}
	return r.checkAttached()
}

// check says which field is out of its bounds.
func (w *Warmup) check(horizon float64) error {
	if !(w.Seconds >= 0 && w.Seconds < horizon) {
		return fmt.Errorf("seconds: found %v, want 0 or more, and less than the horizon, %v", w.Seconds, horizon)
	}
	if !(w.Window > 0 && w.Window <= horizon) {
		return fmt.Errorf("window_s: found %v, want more than 0, and at most the horizon, %v", w.Window, horizon)
	}
	return errors.Join(
		atMost("method: bytes", int64(len(w.Method)), nameBytesMax),
		atMost("by: bytes", int64(len(w.By)), settingBytesMax),
		within("windows", w.Windows, 1, windowsMax))
}

// checkAttached says which attached file isn't what it was.
func (r *Run) checkAttached() error {
	for i := range r.Attached {
		a := &r.Attached[i]
		if err := atMost("attached: bytes of a name", int64(len(a.Name)), fileBytesMax); err != nil {
			return err
		}
		if sum := Digest(sha256.Sum256(a.Data)); sum != a.Digest {
			return fmt.Errorf("attached file %q: found digest %v, want %v", a.Name, sum, a.Digest)
		}
	}
	return nil
}

func checkSettings(field string, settings []Setting) error {
	for _, s := range settings {
		if err := errors.Join(atMost(field+": bytes of a key", int64(len(s.Key)), settingBytesMax),
			atMost(field+": bytes of a value", int64(len(s.Value)), settingBytesMax)); err != nil {
			return err
		}
	}
	return atMost(field, int64(len(settings)), settingsMax)
}
