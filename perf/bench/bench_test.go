// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/envelope"
)

func TestSumReadsEveryByte(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 127, 200, 1000} {
		p := NewPayload(n)
		if got, want := sum(p), plainSum(p); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
		before := sum(p)
		for i := range p {
			p[i]++
			if sum(p) == before {
				t.Fatalf("%d bytes: byte %d makes no difference", n, i)
			}
			p[i]--
		}
	}
}

func plainSum(b []byte) (s uint64) {
	for len(b) > 0 {
		var w [8]byte
		n := copy(w[:], b)
		s += binary.LittleEndian.Uint64(w[:])
		b = b[n:]
	}
	return s
}

func TestChecksAgreeWithTheSums(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	for _, n := range []int{0, 5, 8, 15, 16, 64, 1000} {
		p := NewPayload(n)
		full, tips := NewCheck(p), newTipCheck(p)
		total := uint64(0)
		for i := range uint64(100) {
			stamp(p, i)
			total += sum(p)
			if got := full.first(i + 1); got != total {
				t.Fatalf("%d bytes: %#x for the first %d, want %#x", n, got, i+1, total)
			}
			number := random.Uint64()
			stamp(p, number)
			if err := full.Verify("test", p, number); err != nil {
				t.Fatalf("%d bytes, seed %d: %v", n, seed, err)
			}
			stampTips(p, number)
			if got, want := sumTips(p), tips.at(number); got != want {
				t.Fatalf("%d bytes, number %d: %#x, want %#x (seed %d)", n, number, got, want, seed)
			}
			if n >= tipBytes { // leave it as it was
				copy(p, NewPayload(n))
			}
		}
	}
	p := NewPayload(64)
	p[40] ^= 1
	if err := NewCheck(NewPayload(64)).Verify("test", p, binary.LittleEndian.Uint64(p)); err == nil {
		t.Error("damage isn't seen")
	}
}

// A side that reads only the number of an answer sees a wrong one, and what else is damaged only in each 1,024th.
func TestTheNumberIsRead(t *testing.T) {
	s := sink{number: true, check: NewCheck(NewPayload(100))}
	payload := NewPayload(100)
	for number, wrong := range []uint64{0, 0, 0, 5} {
		stamp(payload, uint64(number)+wrong)
		payload[50]++
		ev := envelope.Event{Number: uint64(number), Data: payload}
		if err := s.ReceiveEvent(0, &ev, 0); err != nil || s.wrong != wrong {
			t.Errorf("event %d: %v, wrong %d, want %d", number, err, s.wrong, wrong)
		}
	}
	s.wrong, s.events = 0, readEvery-1
	ev := envelope.Event{Number: 7, Data: payload}
	stamp(payload, 7)
	if err := s.ReceiveEvent(0, &ev, 0); err != nil || s.wrong == 0 {
		t.Errorf("event %d: %v, wrong %d", s.events, err, s.wrong)
	}
	s.wrong, s.events = 0, readEvery-1
	ev.Data = NewPayload(100)
	stamp(ev.Data, 7)
	if err := s.ReceiveEvent(0, &ev, 0); err != nil || s.wrong != 0 {
		t.Errorf("event %d: %v, wrong %d, want 0", s.events, err, s.wrong)
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Range
	}{
		{[]float64{3}, Range{3, 3, 3}},
		{[]float64{4, 1}, Range{1, 2.5, 4}},
		{[]float64{9, 1, 5}, Range{1, 5, 9}},
	} {
		if got := RangeOf(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// Limit and row take turns, round by round.
func TestMeasureTakesTurns(t *testing.T) {
	var order []string
	note := func(name string, nanos int64) Job {
		return Job{Name: name, Open: func(s *Side) (*Run, error) {
			return &Run{Do: func(m *Meter) error {
				if s.Lead() {
					order = append(order, name)
					m.Trips(1)
					m.Begin()
					_ = m.histogram.RecordValue(nanos)
					m.End(1)
				}
				return nil
			}}, nil
		}}
	}
	f, err := NewFleet(FleetConfig{Pairs: 1, ArenaBytes: arenaHead, Jobs: []Job{note("row", 300), note("limit", 200)}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	spec := Spec{Bench: "b", Row: Task{Job: "row", CPU: AnyCPU}, Limit: Task{Job: "limit", CPU: AnyCPU}, LimitName: "l",
		By: ByTrip, Goal: Goal{RatioMax: 1.5}}
	row, err := Measure(context.Background(), f, spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"limit", "row", "limit", "row", "limit", "row"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if *row.Ratio != (Range{1.5, 1.5, 1.5}) || row.RTT.P50 != 300 || row.RTT.Max != 300 || row.Limit != "l" ||
		row.Processes != 1 {
		t.Errorf("%+v with %v and %v", row, row.Ratio, row.RTT)
	}
	if met, text := spec.Goal.check(&row); !met || text != "at most 1.5 x" {
		t.Errorf("goal %q reached: %t", text, met)
	}
}

// A limit that polls is measured with each number of pauses in every round, and the one with the best median is the
// limit of all of them.
func TestTheBestPausesAreTheLimit(t *testing.T) {
	var order []int
	nanos := map[int][]int64{0: {300, 100, 300}, 1: {200, 200, 200}, 2: {400, 400, 400}}
	limit := Job{Name: "limit", Pauses: []int{0, 1, 2}, Open: func(s *Side) (*Run, error) {
		return &Run{Do: func(m *Meter) error {
			if s.Lead() {
				order = append(order, s.Pauses)
				m.Trips(1)
				m.Begin()
				_ = m.histogram.RecordValue(nanos[s.Pauses][(len(order)-1)/3])
				m.End(1)
			}
			return nil
		}}, nil
	}}
	row := limit
	row.Name, row.Pauses = "row", nil
	row.Open = func(s *Side) (*Run, error) {
		return &Run{Do: func(m *Meter) error {
			m.Trips(1)
			m.Begin()
			_ = m.histogram.RecordValue(300)
			m.End(1)
			return nil
		}}, nil
	}
	f, err := NewFleet(FleetConfig{Pairs: 1, ArenaBytes: arenaHead, Jobs: []Job{row, limit}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	spec := Spec{Bench: "b", Row: Task{Job: "row", CPU: AnyCPU}, Limit: Task{Job: "limit", CPU: AnyCPU}, LimitName: "l"}
	r, err := Measure(context.Background(), f, spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0, 1, 2}; !slices.Equal(order, want) {
		t.Errorf("%d, want %d", order, want)
	}
	if r.LimitPauses == nil || *r.LimitPauses != 1 || *r.Ratio != (Range{1.5, 1.5, 1.5}) {
		t.Errorf("pauses %v, ratio %v, want 1 and 1.5", r.LimitPauses, r.Ratio)
	}
	var text strings.Builder
	WriteText(&text, &r)
	if want := "which was 200 ns at its best, 1 x PAUSE between two looks (0: 300 ns, 1: 200 ns, 2: 400 ns)"; !strings.
		Contains(text.String(), want) {
		t.Errorf("%q, want %q", text.String(), want)
	}
	order = nil
	spec = Spec{Bench: "limit", Row: Task{Job: "limit", CPU: AnyCPU}, LimitName: "limit"}
	if r, err = Measure(context.Background(), f, spec, 3); err != nil || *r.LimitPauses != 1 || r.RTT.P50 != 200 {
		t.Errorf("the limit as a row: %v, %+v, %v", r.LimitPauses, r.RTT, err)
	}
}

// A row of another project's program that fails has a note, and the others continue.
func TestARowThatCantBeMeasured(t *testing.T) {
	f, err := NewFleet(FleetConfig{Pairs: 1, ArenaBytes: arenaHead, Jobs: Jobs()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, spec := range []Spec{
		{Bench: "b", Absent: "it is not installed"},
		{Bench: "b", Measure: func(context.Context, Task) (Result, error) {
			return Result{}, fmt.Errorf("it is not installed")
		}},
	} {
		row, err := Measure(context.Background(), f, spec, 2)
		if err != nil || row.Note != "it is not installed" || row.Ratio != nil || row.RTT != nil {
			t.Errorf("%+v, %v", row, err)
		}
		var text strings.Builder
		WriteText(&text, &row)
		if !strings.Contains(text.String(), "not measured: it is not installed") {
			t.Errorf("%q", text.String())
		}
	}
}

func TestHistogramsGoThroughFiles(t *testing.T) {
	row := Row{Bench: "other bench", PayloadBytes: 64, Wait: "spin", histogram: newHistogram()}
	for v := int64(1); v <= 1000; v++ {
		_ = row.histogram.RecordValue(v)
	}
	files, err := WriteHgrm(t.TempDir(), []Row{row, {Bench: "no histogram"}})
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "/other-bench-64-spin.hgrm") {
		t.Fatalf("%q, %v", files, err)
	}
	c, err := readCurve(files[0])
	if err != nil {
		t.Fatal(err)
	}
	own := curveOf(c.name, row.histogram)
	if len(c.points) != len(own.points) || c.points[len(c.points)-1].nanos != 1000 {
		t.Fatalf("%d points, want %d, the last of %v at 1000", len(c.points), len(own.points),
			c.points[len(c.points)-1])
	}
	for i, p := range c.points {
		if p.nanos != own.points[i].nanos || p.percentile-own.points[i].percentile > 1e-3 {
			t.Errorf("point %d: %v, want %v", i, p, own.points[i])
		}
	}
	if _, err := parseCurve(strings.NewReader("nothing\n")); err == nil {
		t.Error("a file without a line is a curve")
	}
}

func TestStreamSlices(t *testing.T) {
	m := newMeter(Task{Payload: 64, Ring: 1 << 12, Time: TimeMin})
	m.Stream(nil)
	events := uint64(0)
	for m.Tick(events) {
		events += m.stream.size
	}
	m.End(events)
	r, err := m.finish()
	if err != nil || r.Steady <= 0 || len(m.stream.all) == 0 || len(m.stream.clean) > len(m.stream.all) {
		t.Errorf("%+v, %v: %d slices, %d clean", r, err, len(m.stream.all), len(m.stream.clean))
	}
	st := stream{clean: []float64{5, 1, 3}, all: []float64{100}}
	if st.steady() != 3 {
		t.Errorf("rate %v of the clean slices, want 3", st.steady())
	}
	if st = (stream{all: []float64{100, 200}}); st.steady() != 150 {
		t.Errorf("rate %v of all slices, want 150", st.steady())
	}
}

func TestSpecsFitTheirRings(t *testing.T) {
	for _, ring := range []int{RingMin, 1 << 16, RingDefault} {
		o := Options{Payload: -1, Rounds: 1, Time: TimeMin, Ring: ring}
		specs, err := SpecsOf("all", o)
		if err != nil || len(specs) < 30 {
			t.Fatalf("%d rows, %v", len(specs), err)
		}
		for _, s := range specs {
			if s.LimitName == "" || s.Row.Batch > 1 && s.Row.Batch*(s.Row.Payload+48) > ring/8 {
				t.Errorf("ring of %d: %+v", ring, s)
			}
		}
		if _, _, err := Needs(specs, o); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParseCurve(f *testing.F) {
	f.Add("  1.000 0.500000 10 2.00\n#[Mean = 1]\n")
	f.Add("-1 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCurve(strings.NewReader(text))
		if err == nil && len(c.points) == 0 {
			t.Error("a curve without points")
		}
	})
}
