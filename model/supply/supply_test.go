// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// TestSpread: the same calls and reports wherever locations are.
func TestSpread(t *testing.T) {
	for seed := range uint64(5) {
		o := modeltest.ComparePlacements(t, modeltest.MustLoad(t, Kind(), everything), seed)
		if o.Events < 1000 {
			t.Errorf("%d events", o.Events)
		}
	}
}

// TestEverything: each thing that the network is to have has happened in it.
func TestEverything(t *testing.T) {
	r := modeltest.Summarize(t, modeltest.MustLoad(t, Kind(), everything), 1, 5).(*Results)
	want := map[string]bool{"lost_per_s": false, "backlog": false, "thrown_per_s": false, "stock": false,
		"profit_per_s": false, "lost_cost_per_s": false, "backlog_cost_per_s": false, "bullwhip": false}
	for name := range want {
		if x := r.Total[name]; x == nil || x.Mean == 0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if len(r.Stages) != 3 || r.Stages[0].Points != 15 {
		t.Errorf("%d stages, %d points in the first", len(r.Stages), r.Stages[0].Points)
	}
	for name, x := range r.Total {
		if x.Mean < 0 && name != "profit_per_s" {
			t.Errorf("%s is %v", name, x.Mean)
		}
	}
}

// drying is a network whose demand comes from a file and ends long before the horizon.
const drying = `
model: supply
horizon: 400
warmup: 0
products: [{id: a}, {id: b}]
locations: [{id: plant}, {id: warehouse}, {id: shop, count: 2}]
production: [{at: plant, time: exponential(0.2), failure: exponential(5), repair: exponential(1)}]
links:
  - {from: plant, to: warehouse, lead_time: "gamma(2, 0.5)"}
  - {from: warehouse, to: shop, lead_time: exponential(1)}
stock:
  - {at: shop, policy: base_stock, up_to: 7}
  - {at: warehouse, policy: reorder_point, reorder_point: 15, quantity: 20}
  - {at: plant, policy: base_stock, up_to: 30, lot: 4}
demand_file: demand.csv
`

// TestConservation: when demand has ended and nothing is under way any more, all that was made is sold or in stock, at
// each place and in all; nothing is on order, and nobody waits.
func TestConservation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var file strings.Builder
	file.WriteString("time,location,product,quantity\n")
	asked := int64(0)
	for at := 0.0; at < 200; at += rnd.ExpFloat64() * 0.4 {
		n := 1 + rnd.Int64N(4)
		asked += n
		fmt.Fprintf(&file, "%g,shop-%d,%c,%d\n", at, 1+rnd.IntN(2), 'a'+rune(rnd.IntN(2)), n)
	}
	s, err := loadWith(drying, file.String())
	if err != nil {
		t.Fatal(err)
	}
	m := s.(*Model)
	var stocks []*stock
	m.made = func(h node.Handler) {
		if s, ok := h.(*stock); ok {
			stocks = append(stocks, s)
		}
	}
	for seed := range uint64(5) {
		stocks = nil
		if _, err := modeltest.Run(m, modeltest.Config{Seed: seed}); err != nil {
			t.Fatal(err)
		}
		var sold, made, held, began int64
		for _, s := range stocks {
			for i := range s.points {
				pt := &s.points[i]
				got, out := int64(pt.sums[received]), int64(pt.sums[given])
				held += pt.onHand
				began += pt.spec.Stock.Initial
				if pt.spec.Made {
					made += got
				}
				if pt.spec.Stage == 0 {
					sold += out
				}
				if pt.onOrder != 0 || pt.owed != 0 || pt.waiting.len() != 0 {
					t.Errorf("seed %d, %s: %d on order, %d owed to %d", seed, s.spec.ID, pt.onOrder, pt.owed,
						pt.waiting.len())
				}
				if pt.spec.Stock.Initial+got != out+pt.onHand || int64(pt.sums[ordered]) != got {
					t.Errorf("seed %d, %s: began with %d, got %d of %d ordered, gave %d, has %d", seed, s.spec.ID,
						pt.spec.Stock.Initial, got, int64(pt.sums[ordered]), out, pt.onHand)
				}
			}
		}
		if sold != asked || began+made != sold+held || made == 0 {
			t.Errorf("seed %d: began with %d, made %d, sold %d of %d, hold %d", seed, began, made, sold, asked, held)
		}
	}
}

// loadWith loads a scenario with a demand file.
func loadWith(text, file string) (scenario.Scenario, error) {
	doc, err := scenario.Parse("test.yml", []byte(text))
	if err != nil {
		return nil, err
	}
	return Kind().Load(doc.Attach([]scenario.Attachment{{Name: "demand.csv", Text: []byte(file)}}), scenario.Options{})
}

func TestInvalid(t *testing.T) {
	if n := modeltest.Invalid(t, Kind(), "testdata/invalid", *update); n < 50 {
		t.Errorf("%d files", n)
	}
}

// TestDemandFile: what is wrong with a file of demands is said with its line.
func TestDemandFile(t *testing.T) {
	const head = "time,location,product,quantity\n"
	for file, want := range map[string]string{
		"": "demand.csv:1: found no first line, want the columns",
		"time,product,location,quantity\n": `demand.csv:1:1: time: found the columns ["time" "product" "location" ` +
			`"quantity"], want ["time" "location" "product" "quantity"], in this order`,
		head + "1,shop-1,a\n": "demand.csv:2:1: time: found another number of columns than in " +
			"the first line, want 4",
		head + "1,shop-1,a,1,1\n": "demand.csv:2:1: time: found another number of columns than in " +
			"the first line, want 4",
		head + "1,shop-1,\"a,1\n":             "demand.csv:",
		head + "1,shop-1,a,1\nx,shop-1,a,1\n": `demand.csv:3:1: time: found "x", want a time from 0 to 1000000000 s`,
		head + "NaN,shop-1,a,1\n":             `demand.csv:2:1: time: found "NaN", want a time from 0`,
		head + "-1,shop-1,a,1\n":              `demand.csv:2:1: time: found "-1", want a time from 0`,
		head + "2,shop-1,a,1\n1,shop-1,a,1\n": "demand.csv:3:1: time: found 1 s behind 2 s, want times that " +
			"don't fall; sort",
		head + "1,shop-3,a,1\n": `demand.csv:2:3: location: found the unknown location "shop-3", ` +
			`want the id of a location`,
		head + "1,shop,a,1\n": `demand.csv:2:3: location: found the unknown location "shop", ` +
			`want the id`,
		head + "1,shop-1,aa,1\n": `demand.csv:2:10: product: found the unknown product "aa", want ` +
			`the id of a product; did you`,
		head + "1,shop-1,a,0\n": `demand.csv:2:12: quantity: found "0", want a whole number from 1 ` +
			`to 1000000000`,
		head + "1,shop-1,a,1.5\n": `demand.csv:2:12: quantity: found "1.5", want a whole number`,
		head + "1,shop-1,a,-1\n":  `demand.csv:2:12: quantity: found "-1", want a whole number`,
		head + "1,shop-1,c,1\n": "demand.csv:2:10: product: found demand of c at shop-1, where no " +
			"stock of it is",
		head:                                    "demand: found no demand at any stock, want demand or a demand_file",
		head + strings.Repeat("x,y,z,0\n", 100): `demand.csv:21:1: time: found "x"`,
	} {
		text := strings.Replace(drying, "{id: b}]", "{id: b}, {id: c}]", 1)
		text = strings.Replace(text, "{at: shop, policy: base_stock, up_to: 7}",
			"{at: shop, products: [a, b], policy: base_stock, up_to: 7}", 1)
		_, err := loadWith(text, "\ufeff"+file)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", file, err, want)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n > problemsMax {
			t.Errorf("%.60q: %d problems", file, n)
		}
	}
}

// Whatever is in a demand file, reading it ends, with an error or a scenario.
func FuzzDemandFile(f *testing.F) {
	f.Add("time,location,product,quantity\n1,shop-1,a,3\n2,shop-2,b,1\n")
	f.Add("time,location,product,quantity\n1,shop-1,\"a,3\n")
	f.Fuzz(func(_ *testing.T, file string) { _, _ = loadWith(drying, file) })
}

func TestHandlingDoesNotAllocate(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), strings.Replace(everything, "horizon: 60", "horizon: 1000000", 1))
	plan, err := node.NewPlan(s.Graph(), make([]int32, s.Graph().Len()), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 1, Horizon: s.Horizon()})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) {
		if _, err := e.Run(n, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	}
	run(200_000)
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	if got := testing.AllocsPerRun(10, func() { run(1000) }); got > 1 {
		t.Errorf("%v allocations per 1000 activations", got)
	}
}

// TestInterrupted: a run that ended early counts what it has reached; reports that no location makes are refused.
func TestInterrupted(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), everything)
	o, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, reached := range []float64{60, 30, 10, 0} {
		rep := o.Replication
		rep.Reached = reached
		sum, err := modeltest.Sum(s, rep)
		if err != nil {
			t.Fatal(err)
		}
		r := sum.(*Results)
		if r.Interrupted != (reached < 60) || (r.Total["stock"] == nil) != (reached <= 10) {
			t.Errorf("reached %v: %+v", reached, r.Total["stock"])
		}
		if err := r.WriteText(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
		if rows := s.(*Model).Table(r); len(rows) < 2 && reached > 10 || len(rows[0]) != len(rows[len(rows)-1]) {
			t.Errorf("reached %v: %d rows", reached, len(rows))
		}
	}
	id := 3*1 + stockRank
	short := o.Replication
	short.Reports = append([][]byte(nil), short.Reports...)
	short.Reports[id] = short.Reports[id][:8]
	if _, err := modeltest.Sum(s, short); err == nil || !strings.Contains(err.Error(),
		"the report of plant has 8 bytes") {
		t.Errorf("a short report: %v", err)
	}
	short.Reports[id] = bytes.Repeat([]byte{0xff}, len(o.Replication.Reports[id]))
	if _, err := modeltest.Sum(s, short); err == nil || !strings.Contains(err.Error(), "the report of plant: sum 0") {
		t.Errorf("a wrong report: %v", err)
	}
	if _, err := modeltest.Sum(s); err == nil {
		t.Error("no replication is no error")
	}
}

func TestText(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), everything)
	modeltest.Text(t, "testdata/results.txt", modeltest.Summarize(t, s, 1, 3).(*Results), *update)
	var b strings.Builder
	for _, row := range s.(*Model).Table(modeltest.Summarize(t, s, 1, 3))[:40] {
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	modeltest.Golden(t, "testdata/results.csv", b.String(), *update)
}

// many is a network of so many shops and products each.
func many(shops, products int) string {
	return fmt.Sprintf(`
model: supply
horizon: 3
warmup: 1
products: [{id: p, count: %d}]
locations: [{id: maker, source: true}, {id: warehouse, count: %d}, {id: shop, count: %d}]
links:
  - {from: maker, to: warehouse, lead_time: 1}
  - {from: warehouse, to: shop, lead_time: 0.5}
stock:
  - {at: shop, policy: base_stock, up_to: 3}
  - {at: warehouse, policy: reorder_point, reorder_point: 5, quantity: 10}
demand: [{at: shop, gap: exponential(1)}]
`, products, max(1, shops/10), shops)
}

// TestMany: with more points than have figures of their own, the table has the means of each, and they add up.
func TestMany(t *testing.T) {
	s := modeltest.MustLoad(t, Kind(), many(50, 60)).(*Model)
	r := modeltest.Summarize(t, s, 1, 2).(*Results)
	if len(r.Points) != 0 || r.all != 50*60+5*60 {
		t.Errorf("%d points shown of %d", len(r.Points), r.all)
	}
	sum := 0.0
	rows := s.Table(r)
	for _, row := range rows {
		if row[0] != "" && row[3] == "demand_per_s" {
			var x float64
			if _, err := fmt.Sscan(row[4], &x); err != nil {
				t.Fatal(err)
			}
			sum += x
		}
	}
	if total := r.Total["demand_per_s"].Mean; math.Abs(sum-total) > 1e-9*total || total == 0 {
		t.Errorf("a demand of %v at all points, %v in all", sum, total)
	}
}

func TestBounded(t *testing.T) {
	modeltest.Bounded(t, modeltest.MustLoad(t, Kind(), everything), 0)
}

func TestMemory(t *testing.T) {
	a := modeltest.MustLoad(t, Kind(), many(50, 10)).(*Model).Memory()
	b := modeltest.MustLoad(t, Kind(), many(50, 100)).(*Model).Memory()
	if a.NodeBytes <= locationBytes || b.NodeBytes-locationBytes < 9*(a.NodeBytes-locationBytes) ||
		b.Pending < 9*a.Pending {
		t.Errorf("%+v, with ten times the products %+v", a, b)
	}
}

// TestHorizonOption: what --horizon does to a warm-up.
func TestHorizonOption(t *testing.T) {
	for _, c := range []struct {
		text                             string
		horizon, wantHorizon, wantWarmup float64
	}{
		{everything, 0, 60, 10}, {everything, 30, 30, 10}, {everything, 6, 6, 1},
		{strings.Replace(everything, "warmup: 10\n", "", 1), 30, 30, 3},
	} {
		s, err := modeltest.Load(Kind(), "test.yml", c.text, scenario.Options{Horizon: c.horizon})
		if err != nil {
			t.Fatal(err)
		}
		if m := s.(*Model); m.Horizon() != c.wantHorizon || m.Warmup() != c.wantWarmup {
			t.Errorf("horizon %v: %v, warm-up %v, want %v and %v", c.horizon, m.Horizon(), m.Warmup(), c.wantHorizon,
				c.wantWarmup)
		}
	}
	if _, err := modeltest.Load(Kind(), "test.yml", everything, scenario.Options{Horizon: 1e10}); err == nil {
		t.Error("a horizon beyond the limit is no error")
	}
}

func BenchmarkSupply(b *testing.B) {
	s := modeltest.MustLoad(b, Kind(), strings.Replace(many(100, 10), "horizon: 3", "horizon: 1e9", 1))
	plan, err := node.NewPlan(s.Graph(), make([]int32, s.Graph().Len()), 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 1, Horizon: s.Horizon()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := e.Run(b.N, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(e.Stats().Events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

// TestTooMuch: what would never end is an error in the model's words.
func TestTooMuch(t *testing.T) {
	for text, want := range map[string]string{
		onePlant(300, "time: 1", "policy: base_stock, up_to: 1000000000, initial: 0",
			"gap: 1"): "supply: plant is to make " +
			"1000000000 units of point 0 in lots of 1, want at most 1048576 lots at once: give the stock a larger lot",
		onePlant(3000, "time: 1", "policy: base_stock, up_to: 0, lot: 1000000000",
			"gap: 0.001, size: 1000000000"): "supply: " +
			"point 0 of plant owes 1000001000000000 units at",
	} {
		_, err := modeltest.Run(modeltest.MustLoad(t, Kind(), text), modeltest.Config{Seed: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNotes: stocks that no demand reaches are allowed, and remarked on.
func TestNotes(t *testing.T) {
	notes := modeltest.MustLoad(t, Kind(), everything).(*Model).Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], "stock: has 2 stocks that no demand reaches") {
		t.Errorf("%q", notes)
	}
}

func TestDescribeEvent(t *testing.T) {
	m := modeltest.MustLoad(t, Kind(), everything).(*Model)
	var b message
	for what, want := range map[uint32]string{arrival: "arrival of 3 for point 2", order: "order of 3 by customer 2",
		wanted: "demand of 3 at point 2", produce: "production of 3 for point 2", 0: "supply: a message of 16 bytes"} {
		if got := m.DescribeEvent(b.put(what, 2, 3)); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := m.DescribeEvent([]byte{1}); !strings.Contains(got, "a message of 1 bytes") {
		t.Error(got)
	}
}

// TestInterruptedIsShorter: a run that is ended at 30 s when it has come to 20 reports, to the bit, what one with that
// horizon does.
func TestInterruptedIsShorter(t *testing.T) {
	reports := func(text string, from, end float64) [][]byte {
		s := modeltest.MustLoad(t, Kind(), text)
		plan, err := node.NewPlan(s.Graph(), make([]int32, s.Graph().Len()), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 5, Horizon: s.Horizon()})
		if err != nil {
			t.Fatal(err)
		}
		for e.Next() != node.Never {
			if front, _ := e.Front(); front >= from && front < end {
				e.SetHorizon(end)
			}
			if _, err := e.Run(1, math.Inf(1)); err != nil {
				t.Fatal(err)
			}
		}
		all, err := e.Report(end)
		if err != nil {
			t.Fatal(err)
		}
		var out [][]byte
		for _, r := range all {
			out = append(out, bytes.Clone(r.Data))
		}
		return out
	}
	got := reports(everything, 20, 30)
	want := reports(strings.Replace(everything, "horizon: 60", "horizon: 30", 1), math.Inf(1), 30)
	if len(got) != len(want) || len(got) < 5 {
		t.Fatalf("%d reports, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("report %d differs", i)
		}
	}
}

// TestEpochs: how many different epochs events have is counted about right, whether they come at random or in the same
// rhythm: a run takes a step for each.
func TestEpochs(t *testing.T) {
	const head = "model: supply\nhorizon: 200\nproducts: [{id: tea}]\nlocations: [{id: harbour, source: true}, " +
		"{id: depot}, {id: shop, count: 40}]\n"
	for name, text := range map[string]string{
		"random": "links: [{from: harbour, to: depot, lead_time: 1.3}, {from: depot, to: shop, lead_time: " +
			"exponential(0.7)}]\nstock: [{at: depot, policy: base_stock, up_to: 90}, {at: shop, policy: base_stock, " +
			"up_to: 5}]\ndemand: [{at: shop, gap: exponential(2)}]\n",
		"reviews": "links: [{from: harbour, to: depot, lead_time: 1.3}, {from: depot, to: shop, lead_time: 0.7}]\n" +
			"stock: [{at: [depot, shop], policy: periodic, every: 1, up_to: 60}]\ndemand: [{at: shop, gap: 0.5}]\n",
		"reviews of random demand": "links: [{from: harbour, to: depot, lead_time: 1.3}, {from: depot, to: shop, " +
			"lead_time: 0.7}]\nstock: [{at: [depot, shop], policy: periodic, every: 1, up_to: 60}]\n" +
			"demand: [{at: shop, gap: exponential(10)}]\n",
		"equal intervals": "links: [{from: harbour, to: depot, lead_time: 1.3}, {from: depot, to: shop, lead_time: " +
			"0.7}]\nstock: [{at: depot, policy: base_stock, up_to: 99}, {at: shop, policy: base_stock, up_to: 5}]\n" +
			"demand: [{at: shop, gap: 0.5, start: 0.1}]\n",
	} {
		m := modeltest.MustLoad(t, Kind(), head+text).(*Model)
		seen := map[float64]bool{}
		counted := &counting{Model: m, seen: seen}
		if _, err := modeltest.Run(counted, modeltest.Config{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		got, want := m.Graph().Epochs, float64(len(seen))/m.Horizon()
		if !(got > want/1.5 && got < want*1.5) || want < 1 {
			t.Errorf("%s: %.3g epochs a second, want about %.3g, as a run has", name, got, want)
		}
	}
}

// counting notes the epochs at which handlers get events.
type counting struct {
	*Model
	seen map[float64]bool
}

// NewHandler is the model's, with a note.
func (c *counting) NewHandler(p *node.Simproc) (node.Handler, error) {
	h, err := c.Model.NewHandler(p)
	return &noting{h, c.seen}, err
}

type noting struct {
	node.Handler
	seen map[float64]bool
}

// Handle notes the epoch.
func (n *noting) Handle(p *node.Simproc, events []node.Event) error {
	if len(events) > 0 {
		n.seen[p.Now()] = true
	}
	return n.Handler.Handle(p, events)
}
