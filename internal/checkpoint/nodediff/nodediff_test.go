// SPDX-License-Identifier: Apache-2.0

package nodediff

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The clock of node n, from 0, strikes each n+1 seconds and tells the same node's counter, where that comes after
// delay seconds. So what a checkpoint has is known.
const (
	clocks  = 6
	delay   = 10
	horizon = 100
	group   = 2 // nodes
)

type striking struct{}

func (striking) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"clock", "counter"}}
	for n := range clocks {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("c%d", n)})
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: n}, To: node.Endpoint{Node: n, Simproc: 1},
			Lookahead: delay})
	}
	return g
}

func (striking) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &clock{}
	if p.Rank() > 0 {
		return h, nil
	}
	var err error
	h.link, err = p.LinkTo(node.Endpoint{Node: p.NodeIndex(), Simproc: 1})
	return h, err
}

type clock struct {
	link  node.LinkID
	calls uint64
}

func (h *clock) Handle(p *node.Simproc, _ []node.Event) error {
	h.calls++
	if p.Rank() > 0 {
		return nil
	}
	if err := p.Wakeup(p.Now() + float64(p.NodeIndex()+1)); err != nil {
		return err
	}
	return p.Send(h.link, p.Now()+delay, []byte("strikes"))
}

func (h *clock) StateVersion() uint32 { return 3 }

func (h *clock) State(_ *node.Simproc, c *state.Codec) { c.Uint64(&h.calls) }

func newRepo(t *testing.T) *checkpoint.Repo {
	t.Helper()
	r, err := checkpoint.Create(context.Background(), checkpointtest.NewMem(), checkpoint.Run{Kind: "striking",
		Replications: 1, Horizon: horizon, Nodes: clocks, Simprocs: 2 * clocks, GroupNodes: group})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// records are those of a group as they go into chunks: a slice for each chunk.
type records map[checkpoint.Kind]map[int][][]byte

// saved is what an Engine has at epoch, in parts chunks for each group and kind, as of so many workers.
func saved(t *testing.T, epoch float64, parts int) records {
	t.Helper()
	m := striking{}
	plan, err := node.NewPlan(m.Graph(), make([]int32, clocks), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Horizon: horizon})
	if err != nil {
		t.Fatal(err)
	}
	e.SetUntil(epoch)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	all := records{checkpoint.Nodes: {}, checkpoint.Pending: {}}
	add := func(kind checkpoint.Kind, n int, encoded []byte) {
		first := n / group * group
		if all[kind][first] == nil {
			all[kind][first] = make([][]byte, parts)
		}
		chunk := &all[kind][first][n%parts]
		*chunk = checkpoint.AppendNode(*chunk, n, encoded)
	}
	for n := range clocks {
		encoded, err := e.AppendNode(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		add(checkpoint.Nodes, n, encoded)
	}
	if err := e.EachPending(func(n int, encoded []byte) error {
		add(checkpoint.Pending, n, encoded)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// commit makes a checkpoint of them.
func commit(t *testing.T, r *checkpoint.Repo, epoch float64, all records) Side {
	t.Helper()
	var file bytes.Buffer
	spool := checkpoint.NewSpool(&file)
	var chunks []checkpoint.Chunk
	for kind, groups := range all {
		for first, parts := range groups {
			for _, data := range parts {
				if len(data) == 0 {
					continue
				}
				c, err := spool.Add(checkpoint.Chunk{Kind: kind, First: uint32(first), Nodes: group}, data)
				if err != nil {
					t.Fatal(err)
				}
				chunks = append(chunks, c)
			}
		}
	}
	d, m := r.Begin(), &checkpoint.Manifest{Epoch: epoch}
	if err := d.Add(bytes.NewReader(file.Bytes()), spool.Size(), chunks); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	return Side{r, m}
}

// TestEqual: what one worker has saved is what two have.
func TestEqual(t *testing.T) {
	a, b := commit(t, newRepo(t), 5, saved(t, 5, 1)), commit(t, newRepo(t), 5, saved(t, 5, 2))
	for _, sides := range [][2]Side{{a, b}, {b, a}, {a, a}} {
		d, err := Compare(context.Background(), sides[0], sides[1], 10)
		if err != nil || d.Nodes != 0 || d.Bytes != 0 || len(d.Most) != 0 {
			t.Errorf("%+v, %v, want none that differs", d, err)
		}
	}
}

// TestCompare: at 5 s the clocks of nodes 0 and 4 strike, and no others.
func TestCompare(t *testing.T) {
	r := newRepo(t)
	a, b := commit(t, r, 5, saved(t, 5, 1)), commit(t, r, 6, saved(t, 6, 1))
	d, err := Compare(context.Background(), a, b, 10)
	if err != nil {
		t.Fatal(err)
	}
	if d.Nodes != 2 || d.Shared != group || len(d.Most) != 2 {
		t.Fatalf("found %+v, want 2 nodes that differ, and a group that both share", d)
	}
	for _, n := range d.Most {
		period := float64(n.Index + 1)
		if n.Index != 0 && n.Index != 4 || len(n.Simprocs) != 2 || n.Bytes == 0 {
			t.Fatalf("found %+v, want clock and counter of nodes 0 and 4", n)
		}
		before := uint64(5 / period) // strikes before 5 s; the one at 0 is one more where 5 isn't one
		clock, counter := n.Simprocs[0], n.Simprocs[1]
		for i, s := range clock.States {
			calls := before + uint64(i)
			now := period * float64(calls-1)
			if s.Now != now || s.Number != calls || s.Version != 3 || s.Size != 8 || s.Pending != 1 || s.Event == nil ||
				!s.Event.Wakeup || s.Event.Epoch != now+period || s.From != 0 || s.Around[0] != byte(calls) {
				t.Errorf("node %d: clock has %+v, want %d calls, the last one at %v", n.Index, s, calls, now)
			}
			if c := counter.States[i]; c.Pending != int(calls) || c.Now != 0 || len(c.Around) != 0 || c.Size != 8 {
				t.Errorf("node %d: counter has %+v, want %d events", n.Index, c, calls)
			}
		}
		e := counter.States[1].Event
		if counter.Handler != -1 || counter.Pending != int(before) || counter.States[0].Event != nil || e == nil ||
			e.Epoch != 5+delay || e.Wakeup || e.Sender != uint32(2*n.Index) || e.Number != before ||
			string(e.Data) != "strikes" {
			t.Errorf("node %d: counter has %+v and event %+v, want that of 15 s", n.Index, counter, e)
		}
	}
	if d.Most[0].Bytes < d.Most[1].Bytes || d.Bytes != d.Most[0].Bytes+d.Most[1].Bytes {
		t.Errorf("found %+v, want the largest difference first", d)
	}
	one, err := Compare(context.Background(), a, b, 1)
	if err != nil || one.Nodes != 2 || len(one.Most) != 1 || one.Most[0].Index != d.Most[0].Index {
		t.Errorf("found %+v, %v, want the first of %+v", one, err, d)
	}
}

// TestOf: of one node both sides are there, also where they are the same.
func TestOf(t *testing.T) {
	r := newRepo(t)
	a, b := commit(t, r, 5, saved(t, 5, 1)), commit(t, r, 6, saved(t, 6, 1))
	for _, c := range []struct {
		other   Side
		n       int64
		differs bool
	}{{a, 0, false}, {b, 0, true}, {b, 1, false}, {b, 4, true}} {
		d, err := Of(context.Background(), a, c.other, c.n)
		if err != nil || d.Index != c.n || len(d.Simprocs) != 2 || (d.Bytes > 0) != c.differs {
			t.Fatalf("node %d: found %+v, %v, want both simprocs, and that they differ: %v", c.n, d, err, c.differs)
		}
		clock := d.Simprocs[0]
		calls := byte(clock.States[0].Number)
		if (clock.Handler >= 0) != c.differs || len(clock.States[0].Around) != 8 || clock.States[0].Around[0] != calls {
			t.Errorf("node %d: found %+v, want a handler's state of %d calls", c.n, clock, calls)
		}
	}
	if d, err := Of(context.Background(), a, b, 99); err == nil {
		t.Errorf("found %+v of a node that there isn't", d)
	}
}

// TestMost: of many nodes those stay that differ most, and of equal ones the first.
func TestMost(t *testing.T) {
	c := comparison{layers: 1, most: 3, found: &Difference{}}
	node := func(fill byte, bytes int) *record {
		own, err := state.Append(nil, 1, func(c *state.Codec) {
			x, none := 0.0, []floor(nil)
			for range 4 {
				c.Float(&x)
			}
			state.List(c, &none, floorBytes, func(*floor) {})
		})
		if err != nil {
			t.Fatal(err)
		}
		block := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
		handler := append([]byte{1, 0, 0, 0}, slices.Repeat([]byte{fill}, bytes)...)
		return &record{state: append(block(own), block(handler)...)}
	}
	for n, bytes := range []int{5, 9, 2, 9, 7, 9, 9, 0} {
		if err := c.compareNode(uint32(n), node(1, bytes), node(2, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	var found []int64
	for _, m := range c.found.Most {
		found = append(found, m.Index)
	}
	if !slices.Equal(found, []int64{1, 3, 5}) || c.found.Nodes != 7 || c.found.Bytes != 50 {
		t.Errorf("found nodes %v of %d, %d bytes, want 1, 3, 5 of 7, 50", found, c.found.Nodes, c.found.Bytes)
	}
}

// TestDamage: chunks whose records can't be are refused, and the chunk is named.
func TestDamage(t *testing.T) {
	good := commit(t, newRepo(t), 5, saved(t, 5, 1))
	for _, test := range []struct {
		name, want string
		spoil      func(records)
	}{
		{"cut", "found 3 bytes, want the head of a record", func(r records) {
			r[checkpoint.Nodes][0][0] = r[checkpoint.Nodes][0][0][:3]
		}},
		{"long", "of node 0, want at most", func(r records) { r[checkpoint.Nodes][0][0][7] = 0x7f }},
		{"other group", "found node 1000", func(r records) {
			binary.LittleEndian.PutUint32(r[checkpoint.Nodes][0][0], 1000)
		}},
		{"not rising", "found node 0, want 1 to 1", func(r records) {
			r[checkpoint.Nodes][0][0] = checkpoint.AppendNode(checkpoint.AppendNode(nil, 0, nil), 0, nil)
		}},
		{"twice", "which another chunk has, too", func(r records) {
			r[checkpoint.Nodes][0] = append(r[checkpoint.Nodes][0], checkpoint.AppendNode(nil, 0, []byte("again")))
		}},
		{"no state", "of which there is no state", func(r records) {
			r[checkpoint.Nodes][2][0] = nil
		}},
		{"missing", "found no state of node 1", func(r records) {
			data := r[checkpoint.Nodes][0][0]
			size := 8 + binary.LittleEndian.Uint32(data[4:])
			r[checkpoint.Nodes][0][0] = data[:size]
			r[checkpoint.Pending][0] = nil
		}},
		{"block", "found a block of 4278190120 bytes", func(r records) { r[checkpoint.Nodes][0][0][11] = 0xff }},
		{"behind", "bytes behind its state, want none", func(r records) {
			data := r[checkpoint.Nodes][0][0]
			end := 8 + binary.LittleEndian.Uint32(data[4:])
			longer := checkpoint.AppendNode(nil, 0, append(bytes.Clone(data[8:end]), 1, 2, 3))
			r[checkpoint.Nodes][0][0] = append(longer, data[end:]...)
		}},
		{"pending", "what is pending", func(r records) { r[checkpoint.Pending][0][0][12] = 0xff }},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := saved(t, 5, 1)
			test.spoil(all)
			bad := commit(t, newRepo(t), 5, all)
			for _, sides := range [][2]Side{{good, bad}, {bad, good}} {
				_, err := Compare(context.Background(), sides[0], sides[1], 10)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want one with %q", err, test.want)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	a := commit(t, newRepo(t), 5, saved(t, 5, 1))
	other, err := checkpoint.Create(context.Background(), checkpointtest.NewMem(), checkpoint.Run{Kind: "striking",
		Replications: 1, Horizon: horizon, Nodes: clocks, Simprocs: 2 * clocks, GroupNodes: group,
		Graph: checkpoint.Digest{1}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var graph *OtherGraphError
	if _, err := Compare(context.Background(), a, Side{other, a.Manifest}, 10); !errors.As(err, &graph) {
		t.Errorf("%v, want *OtherGraphError", err)
	}
	end := &checkpoint.Manifest{Epoch: horizon, Finished: true}
	if err := a.Repo.Begin().Commit(context.Background(), end); err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(context.Background(), a, Side{a.Repo, end}, 10); !errors.Is(err, errEnd) {
		t.Errorf("%v, want that the end of a replication has no states", err)
	}
}

// TestFull: a group that is just as large as is allowed is compared, and refused with one byte less.
func TestFull(t *testing.T) {
	all := saved(t, 5, 1)
	size := int64(0)
	for first := 0; first < clocks; first += group {
		size = max(size, int64(len(all[checkpoint.Nodes][first][0])+len(all[checkpoint.Pending][first][0])))
	}
	a, b := commit(t, newRepo(t), 5, all), commit(t, newRepo(t), 5, saved(t, 5, 2))
	if _, err := compare(context.Background(), a, b, 10, size); err != nil {
		t.Errorf("%d bytes: %v", size, err)
	}
	const want = "found a group of nodes with more than"
	if _, err := compare(context.Background(), a, b, 10, size-1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d bytes: %v, want one with %q", size-1, err, want)
	}
}

// FuzzParts: a record of any bytes is refused, or decoded without looking beyond it.
func FuzzParts(f *testing.F) {
	f.Add([]byte{}, []byte{1, 0, 0, 0}, uint8(1))
	f.Add([]byte{8, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4}, []byte{1, 0, 0, 0, 1, 0, 0, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, own, pending []byte, layers uint8) {
		r := record{own, [][]byte{pending}}
		parts, err := r.parts(int(layers))
		size := 0
		for i := range parts {
			size += len(parts[i].own) + len(parts[i].handler)
		}
		if err == nil && (len(parts) != int(layers) || size > len(own)) {
			t.Errorf("found %d simprocs of %d with %d bytes of %d", len(parts), layers, size, len(own))
		}
	})
}

// What is pending for a node is the same in one record and in parts, in whatever order they come; a part that comes
// twice is refused.
func TestPendingInParts(t *testing.T) {
	word := binary.LittleEndian
	wakeups := func(head []uint32, epochs ...float64) (b []byte) {
		for _, v := range append(head, uint32(len(epochs))) {
			b = word.AppendUint32(b, v)
		}
		for _, epoch := range epochs {
			b = word.AppendUint32(word.AppendUint64(b, math.Float64bits(epoch)), wakeup)
		}
		return b
	}
	var own []byte // a state of nothing
	for _, block := range [][]byte{make([]byte, 4+32+4), make([]byte, 4)} {
		word.PutUint32(block, savedVersion)
		own = append(word.AppendUint32(own, uint32(len(block))), block...)
	}
	whole := wakeups([]uint32{savedVersion}, 1, 2, 3)
	first, last := wakeups([]uint32{partVersion, 0, 0}, 1, 2), wakeups([]uint32{partVersion, 1, 1}, 3)
	chunk := &groupChunk{Chunk: checkpoint.Chunk{Kind: checkpoint.Pending, Nodes: 1}}
	events := func(records ...[]byte) ([]Event, error) {
		nodes := map[uint32]*record{0: {state: own}}
		var data []byte
		for _, r := range records {
			data = checkpoint.AppendNode(data, 0, r)
		}
		if err := addRecords(nodes, chunk, data); err != nil {
			return nil, err
		}
		nodes[0].sort()
		parts, err := nodes[0].parts(1)
		if err != nil {
			return nil, err
		}
		return parts[0].pending, nil
	}
	want, err := events(whole)
	if err != nil || len(want) != 3 {
		t.Fatal(want, err)
	}
	for _, records := range [][][]byte{{first, last}, {last, first}} {
		if got, err := events(records...); err != nil || !slices.EqualFunc(got, want, Event.equal) {
			t.Errorf("found %v, %v, want %v", got, err, want)
		}
	}
	const twice = "which another chunk has, too"
	for _, records := range [][][]byte{{first, first}, {whole, whole}} {
		if got, err := events(records...); err == nil || !strings.Contains(err.Error(), twice) {
			t.Errorf("found %v, %v, want it refused", got, err)
		}
	}
}
