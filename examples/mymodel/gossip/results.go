// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// Summary is the results. Its JSON is the "results" of --json; numbers must be finite
// there, so what didn't happen is null.
type Summary struct {
	People int     `json:"people"`
	Told   float64 `json:"told"` // how often somebody was told, mean of the replications
	Knew   float64 `json:"knew"` // people who knew it at the end, mean
	ByMail float64 `json:"first_by_mail"`

	// Seconds until a share of the people knew it, mean of the replications that got so
	// far; null when none did.
	Half   *float64 `json:"half_s"`
	Ninety *float64 `json:"ninety_percent_s"`
	All    *float64 `json:"all_s"`
}

// Accumulate implements scenario.Scenario.
func (m *Model) Accumulate() scenario.Accumulator { return &sum{people: m.people} }

// sum implements scenario.Accumulator: it keeps sums and no replication, however many
// there are.
type sum struct {
	people             int
	replications       float64
	told, knew, byMail float64
	half, ninety, all  mean
}

// Add gets the reports of all people in the order of their nodes, whoever hosted them.
func (s *sum) Add(r scenario.Replication) error {
	var heard []float64
	for id, part := range r.Reports {
		if len(part) != reportBytes {
			return fmt.Errorf("gossip: person %d reports %d bytes, want %d", id, len(part), reportBytes)
		}
		if at := math.Float64frombits(binary.LittleEndian.Uint64(part)); at < math.Inf(1) {
			heard = append(heard, at)
		}
		s.told += float64(binary.LittleEndian.Uint64(part[8:]))
		s.byMail += float64(part[16])
	}
	slices.Sort(heard)
	s.replications++
	s.knew += float64(len(heard))
	s.half.add(heard, (s.people+1)/2)
	s.ninety.add(heard, (s.people*9+9)/10)
	s.all.add(heard, s.people)
	return nil
}

// Summary is called after the last replication.
func (s *sum) Summary() (scenario.Summary, error) {
	return &Summary{
		People: s.people, Told: s.told / s.replications, Knew: s.knew / s.replications,
		ByMail: s.byMail / s.replications,
		Half:   s.half.value(), Ninety: s.ninety.value(), All: s.all.value(),
	}, nil
}

// mean is the mean time at which so many people knew the rumour.
type mean struct {
	sum   float64
	count int
}

func (m *mean) add(heard []float64, people int) {
	if len(heard) >= people {
		m.sum += heard[people-1]
		m.count++
	}
}

func (m *mean) value() *float64 {
	if m.count == 0 {
		return nil
	}
	v := m.sum / float64(m.count)
	return &v
}

// WriteText implements scenario.Summary: the results for people.
func (s *Summary) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%.6g of %d people knew it at the end, %.6g of them by mail; it was told %.6g "+
		"times\nhalf knew it after %s, nine of ten after %s, all after %s\n",
		s.Knew, s.People, s.ByMail, s.Told, minutes(s.Half), minutes(s.Ninety), minutes(s.All))
	return err
}

func minutes(seconds *float64) string {
	if seconds == nil {
		return "(never)"
	}
	return fmt.Sprintf("%.1f min", *seconds/60)
}
