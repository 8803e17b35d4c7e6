// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
	"gonum.org/v1/gonum/mathext"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// Results is what a run has counted, over all replications: the JSON "results".
type Results struct {
	LPs              int     `json:"lps"`
	EventsEach       int     `json:"events_each"`    // that every process starts with
	Idle             float64 `json:"idle,omitempty"` // share of them that start without events
	Remote           float64 `json:"remote"`
	LookaheadSeconds float64 `json:"lookahead_s"`
	EndSeconds       float64 `json:"end_s"`
	RNG              string  `json:"rng"`
	PayloadBytes     int     `json:"payload_bytes"`

	EventsHandled uint64  `json:"events_handled"`
	SentRemotely  uint64  `json:"sent_remotely"` // to another process
	LeastPerLP    uint64  `json:"least_per_lp"`
	MeanPerLP     float64 `json:"mean_per_lp"`
	MostPerLP     uint64  `json:"most_per_lp"`
	CountsHash    string  `json:"counts_hash"` // xxHash64 of the counts of all processes, in order

	// Theory is what renewal theory says of EventsHandled; null for an interrupted run.
	Theory *Theory `json:"theory"`

	Interrupted  bool                `json:"interrupted"`
	Replications []ReplicationResult `json:"replications"`

	course *measure.Course // of all processes; nil: no time series were asked for
}

// Theory is the distribution of the number of events. A single event that is passed on
// is a renewal process, and all of them are independent.
type Theory struct {
	Mean      float64 `json:"mean"`
	StdDev    float64 `json:"stddev"`
	Deviation float64 `json:"deviation"` // (observed - mean) / stddev; 0 where nothing varies
}

// ReplicationResult is one replication in short.
type ReplicationResult struct {
	Index         int     `json:"index"`
	Reached       float64 `json:"reached_s"`
	EventsHandled uint64  `json:"events_handled"`
	CountsHash    string  `json:"counts_hash"`
}

// Accumulate adds up what the processes have counted.
func (m *Model) Accumulate() scenario.Accumulator {
	p := m.params
	t := &tally{m: m, counts: xxhash.New(), r: Results{
		LPs: p.LPs, EventsEach: p.Events, Idle: p.Idle, Remote: p.Remote, LookaheadSeconds: p.Lookahead,
		EndSeconds: p.End, RNG: p.RNG, PayloadBytes: p.Payload,
		LeastPerLP: math.MaxUint64,
	}}
	if m.windows > 0 {
		t.r.course = measure.NewCourse(p.End, m.windows, 1)
	}
	return t
}

// tally implements scenario.Gatherer.
type tally struct {
	m      *Model
	r      Results
	counts *xxhash.Digest // of all replications

	// Of the replication whose reports are taken one by one: what each process has handled, + 1.
	handled  []uint64
	remotely uint64
}

// Begin implements scenario.Gatherer.
func (t *tally) Begin(rep scenario.Replication) {
	t.r.course.Begin(rep.Reached)
	if t.handled == nil {
		t.handled = make([]uint64, t.m.params.LPs)
	}
	clear(t.handled)
	t.remotely = 0
}

// Take implements scenario.Gatherer.
func (t *tally) Take(simproc int, report []byte) error {
	if simproc >= len(t.handled) || t.handled[simproc] != 0 || len(report) < reportBytes ||
		t.r.course == nil && len(report) > reportBytes {
		return fmt.Errorf("phold: found a report of lp%d with %d bytes, want one of each of %d with %d", simproc,
			len(report), len(t.handled), reportBytes)
	}
	t.handled[simproc] = binary.LittleEndian.Uint64(report) + 1
	t.remotely += binary.LittleEndian.Uint64(report[8:])
	// Counts have exact sums, so that one set of windows does for all processes.
	if err := t.r.course.Read(0, 1, report[reportBytes:]); err != nil {
		return fmt.Errorf("phold: the report of lp%d: %w", simproc, err)
	}
	return nil
}

// Add adds up the reports of one replication, or what Take got.
func (t *tally) Add(rep scenario.Replication) error {
	if rep.Reports != nil {
		t.Begin(rep)
		for lp, report := range rep.Reports {
			if err := t.Take(lp, report); err != nil {
				return fmt.Errorf("replication %d: %w", rep.Index, err)
			}
		}
	}
	r := &t.r
	row := ReplicationResult{Index: rep.Index, Reached: rep.Reached}
	one := xxhash.New()
	word := make([]byte, 8)
	for lp, handled := range t.handled {
		if handled == 0 {
			return fmt.Errorf("phold: replication %d: the report of %s is missing", rep.Index, t.m.params.node(lp).Name)
		}
		handled--
		row.EventsHandled += handled
		r.LeastPerLP, r.MostPerLP = min(r.LeastPerLP, handled), max(r.MostPerLP, handled)
		binary.LittleEndian.PutUint64(word, handled)
		_, _ = one.Write(word) // it never fails
		_, _ = t.counts.Write(word)
	}
	r.SentRemotely += t.remotely
	row.CountsHash = fmt.Sprintf("%016x", one.Sum64())
	r.EventsHandled += row.EventsHandled
	r.Interrupted = r.Interrupted || rep.Reached < rep.Horizon
	r.Replications = append(r.Replications, row)
	return nil
}

// Summary puts theory beside the sum.
func (t *tally) Summary() (scenario.Summary, error) {
	r, n := &t.r, len(t.r.Replications)
	if n == 0 {
		return nil, errors.New("phold: no replication to summarize")
	}
	r.CountsHash = fmt.Sprintf("%016x", t.counts.Sum64())
	r.MeanPerLP = float64(r.EventsHandled) / float64(r.LPs) / float64(n)
	if !r.Interrupted {
		r.Theory = newTheory(t.m.params, n, r.EventsHandled)
	}
	return r, nil
}

// newTheory is the theory of a number of replications, beside what they have observed.
func newTheory(p Params, reps int, observed uint64) *Theory {
	mean, variance := renewals(p.End, p.Lookahead)
	n := float64(p.started()) * float64(p.Events) * float64(reps)
	t := &Theory{Mean: n * mean, StdDev: math.Sqrt(n * variance)}
	if t.StdDev > 0 {
		t.Deviation = (float64(observed) - t.Mean) / t.StdDev
	}
	return t
}

// renewals is mean and variance of how often something happens before end when the
// times between are lookahead + an exponential time, 1 in the mean: k times or more
// when k times lookahead and a gamma-distributed time of shape k fit. Far from the
// start the sums are replaced by their limits (Cox, Renewal theory, 1962, chapter 4),
// which they approach exponentially fast.
func renewals(end, lookahead float64) (mean, variance float64) {
	const exactMax = 20_000
	scale := 1 - lookahead
	if end > exactMax && lookahead < 1 {
		v, third := scale*scale, 2*scale*scale*scale
		return end + (v-1)/2, v*end + 1./12 + 5*v*v/4 - 2*third/3
	}
	square := 0.0
	for k := 1.0; k*lookahead < end; k++ {
		p := 1.0
		if scale > 0 {
			p = mathext.GammaIncReg(k, (end-k*lookahead)/scale)
		}
		mean += p
		square += (2*k - 1) * p
		if k > end && p < 1e-17 || k > 10*exactMax && scale == 0 {
			break
		}
	}
	if scale == 0 {
		times := math.Ceil(end) - 1
		return times, 0
	}
	return mean, max(0, square-mean*mean)
}

// WriteText writes the results for people.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{{Name: "counts", Write: r.writeCounts}}
}

func (r *Results) writeCounts(b *bufio.Writer) {
	t := table.New(40, "PHOLD", "")
	t.Row("logical processes", table.Count(int64(r.LPs)))
	t.Row("events that each starts with", table.Count(int64(r.EventsEach)))
	if r.Idle > 0 {
		t.Row("of them start without", table.Percent(r.Idle))
	}
	t.Row("remote", table.Number(r.Remote))
	t.Row("lookahead", table.Number(r.LookaheadSeconds)+" s")
	t.Row("end", table.Number(r.EndSeconds)+" s")
	t.Row("random numbers", r.RNG)
	if r.PayloadBytes > 0 {
		t.Row("payload of an event", table.Count(int64(r.PayloadBytes))+" B")
	}
	if len(r.Replications) > 1 {
		t.Row("replications", table.Count(int64(len(r.Replications))))
	}
	t.Row("events handled", table.Count(int64(r.EventsHandled)))
	if r.Theory != nil {
		t.Row("expected", fmt.Sprintf("%s ± %s", table.Count(int64(math.Round(r.Theory.Mean))),
			table.Count(int64(math.Round(r.Theory.StdDev)))))
	}
	t.Row("sent to another process", table.Count(int64(r.SentRemotely)))
	t.Row("per process and replication", fmt.Sprintf("%s to %s", table.Count(int64(r.LeastPerLP)),
		table.Count(int64(r.MostPerLP))))
	t.Row("hash of the counts", r.CountsHash)
	if r.Interrupted {
		t.Row("INTERRUPTED", "before the end")
	}
	t.Write(b)
}
