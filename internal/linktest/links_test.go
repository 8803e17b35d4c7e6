// SPDX-License-Identifier: Apache-2.0

package linktest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

var laneErrors = linktest.Errors{
	TooLarge: egress.ErrTooLarge,
	Closed:   lane.ErrClosed,
	PeerDead: lane.ErrPeerDead,
	Protocol: lane.ErrProtocol,
	Refused:  lane.ErrRefused,
}

// Workers that are goroutines, over heap memory: what the race detector can see.
func TestInProcess(t *testing.T) {
	for name, bells := range map[string]bool{"spinning": false, "with doorbells": true} {
		t.Run(name, func(t *testing.T) {
			k := kind{bells: bells}
			linktest.Run(t, linktest.Factory{Name: "in-process", Errors: laneErrors, Open: k.open,
				OpenVictim: k.openVictim})
		})
	}
}

// Each worker has mappings of its own, at other addresses; they happen to be in one
// process.
func TestSharedMemory(t *testing.T) {
	k := kind{bells: true, shared: true}
	linktest.Run(t, linktest.Factory{Name: "shared memory", Errors: laneErrors, Open: k.open, OpenVictim: k.openVictim})
}

// The victim is a process, and dies by SIGKILL.
func TestDeadProcess(t *testing.T) {
	k := kind{bells: true, shared: true}
	linktest.Run(t, linktest.Factory{Name: "shared memory", Errors: laneErrors, OpenVictim: k.openProcess})
}

// kind is a kind of memory.
type kind struct {
	shared bool // memfds, mapped by each worker, and not the heap
	bells  bool // senders ring doorbells
}

const (
	kindLane shm.Kind = 'l'
	kindBell shm.Kind = 'b'
)

// world is the memory of one mesh, in the order: lanes by sender and receiver, pools,
// doorbells.
type world struct {
	o    linktest.Options
	k    kind
	segs []*shm.Segment // as made; nil for a lane from a worker to itself
}

func (w *world) lane(from, to int) int { return from*w.o.Workers + to }
func (w *world) pool(owner int) int    { return w.o.Workers*w.o.Workers + owner }
func (w *world) bell(worker int) int   { return w.o.Workers*(w.o.Workers+1) + worker }

// kindOf is the kind of segment i.
func (w *world) kindOf(i int) shm.Kind {
	switch {
	case i < w.pool(0):
		return kindLane
	case i < w.bell(0):
		return shm.KindPool
	}
	return kindBell
}

func (k kind) make(t testing.TB, o linktest.Options) *world {
	t.Helper()
	w := &world{o: o, k: k}
	cfg := lane.Config{RingBytes: o.RingBytes, ReturnBlocks: o.Blocks, Start: o.Start}
	laneBytes, err := lane.Size(cfg)
	must(t, err)
	classes := []shm.BlockSize{{BlockBytes: max(1, o.BlockBytes), Count: max(1, o.Blocks)}}
	poolBytes, err := shm.PoolBytes(classes)
	must(t, err)
	for i := range w.bell(o.Workers) {
		var s *shm.Segment
		switch w.kindOf(i) {
		case kindLane:
			if i%o.Workers != i/o.Workers {
				s = k.create(t, kindLane, laneBytes)
				must(t, lane.Format(s.Body(), cfg))
			}
		case shm.KindPool:
			s = k.create(t, shm.KindPool, poolBytes)
			must(t, shm.FormatPool(s.Body(), classes))
		case kindBell:
			s = k.create(t, kindBell, shm.DoorbellBytes)
		}
		w.segs = append(w.segs, s)
	}
	return w
}

func (k kind) create(t testing.TB, what shm.Kind, size int) *shm.Segment {
	t.Helper()
	create := shm.Heap
	if k.shared {
		create = shm.Create
	}
	s, err := create(shm.Config{Name: "linktest", Kind: what, Size: size})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// attach maps segment i for one worker.
func (w *world) attach(t testing.TB, worker, i int) *shm.Segment {
	t.Helper()
	if !w.k.shared {
		return w.segs[i]
	}
	s, err := shm.Attach(w.segs[i].File(), w.want(worker, i))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func (w *world) want(worker, i int) shm.Want {
	what := w.kindOf(i)
	return shm.Want{Kind: what, ReadOnly: what == shm.KindPool && i != w.pool(worker)}
}

// join opens one worker's ends. attach maps a segment for it.
func (w *world) join(worker int, attach func(i int) (*shm.Segment, error)) (out []router.Sender, in router.Receiver,
	rings []*ring.Producer, err error) {
	o := w.o
	body := func(i int) []byte {
		if err != nil {
			return nil
		}
		var s *shm.Segment
		if s, err = attach(i); err != nil {
			return nil
		}
		return s.Body()
	}
	var pool *shm.Pool
	if mem := body(w.pool(worker)); o.Blocks > 0 && err == nil {
		pool, err = shm.NewPool(mem)
	}
	out, rings = make([]router.Sender, o.Workers), make([]*ring.Producer, o.Workers)
	var sources []ingress.Source
	for peer := range o.Workers {
		if peer == worker || err != nil {
			continue
		}
		toMem, fromMem, bellMem, poolMem := body(w.lane(worker, peer)), body(w.lane(peer,
			worker)), body(w.bell(peer)), body(w.pool(peer))
		if err != nil {
			continue
		}
		s := ingress.Source{Peer: peer, Lane: fromMem, Parts: o.Parts}
		if w.k.bells {
			if s.Bell, err = shm.OpenDoorbell(bellMem); err != nil {
				continue
			}
		}
		if o.Blocks > 0 {
			s.Pool = poolMem
		}
		sources = append(sources, s)
		var e *egress.Egress
		e, err = egress.New(egress.Config{
			Peer: peer, Lane: toMem, Pool: pool, Bell: s.Bell,
			InlineMax: o.InlineMax, Parts: o.Parts, PublishRecords: o.PublishRecords,
			Wait: func() error { return o.Wait(worker) },
		})
		if err == nil {
			out[peer], rings[peer] = e, e.Ring()
		}
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("worker %d: %w", worker, err)
	}
	in, err = ingress.New(ingress.Config{Lanes: sources, RecordsMax: o.RecordsMax})
	return out, in, rings, err
}

// mesh joins all workers but the absent one.
func (w *world) mesh(t testing.TB, absent int) (*linktest.Ends, [][]*ring.Producer) {
	t.Helper()
	m := &linktest.Ends{Out: make([][]router.Sender, w.o.Workers), In: make([]router.Receiver, w.o.Workers)}
	rings := make([][]*ring.Producer, w.o.Workers)
	for worker := range w.o.Workers {
		if worker == absent {
			continue
		}
		var err error
		m.Out[worker], m.In[worker], rings[worker], err = w.join(worker, func(i int) (*shm.Segment, error) {
			return w.attach(t, worker, i), nil
		})
		must(t, err)
	}
	m.Lane = func(from, to int) []byte { return w.segs[w.lane(from, to)].Body() }
	m.Pool = func(owner int) []byte { return w.segs[w.pool(owner)].Body() }
	m.SendRaw = func(t testing.TB, from, to int, record []byte) {
		t.Helper()
		ring := rings[from][to]
		rec, err := ring.Claim(len(record))
		must(t, err)
		copy(rec, record)
		ring.Commit()
		ring.Publish()
	}
	return m, rings
}

func (k kind) open(t testing.TB, o linktest.Options) *linktest.Ends {
	t.Helper()
	m, _ := k.make(t, o).mesh(t, -1)
	return m
}

// openVictim makes a victim that is part of this process.
func (k kind) openVictim(t testing.TB, o linktest.Options, victim int) (*linktest.Ends, linktest.Victim) {
	t.Helper()
	m, rings := k.make(t, o).mesh(t, -1)
	a := linktest.NewActor(t, m, victim, func(to, size int) error {
		_, err := rings[victim][to].Claim(size)
		return err
	})
	t.Cleanup(a.Kill)
	m.Out[victim], m.In[victim] = nil, nil
	return m, a
}

// victimVariable tells this test's binary that it is a victim, and which.
const victimVariable = "DISCO_LINKTEST_VICTIM"

// order is what a victim's process is told.
type order struct {
	Worker, Workers, RingBytes, InlineMax, Blocks, BlockBytes int
	Bells                                                     bool
}

// openProcess makes a victim that is a process: this binary once more, with the memory
// as its files from 3 on.
func (k kind) openProcess(t testing.TB, o linktest.Options, victim int) (*linktest.Ends, linktest.Victim) {
	t.Helper()
	w := k.make(t, o)
	told, err := json.Marshal(order{victim, o.Workers, o.RingBytes, o.InlineMax, o.Blocks, o.BlockBytes, k.bells})
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+string(told))
	cmd.Stderr = os.Stderr
	for _, s := range w.segs {
		if s == nil {
			s = w.segs[w.bell(0)] // keeps the numbers of the others as they are
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.File())
	}
	steps, err := cmd.StdinPipe()
	must(t, err)
	answers, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	die := func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // SIGKILL
			_ = cmd.Wait()
		}
	}
	t.Cleanup(die)
	m, _ := w.mesh(t, victim)
	return m, &linktest.Remote{T: t, Steps: steps, Answers: answers, Die: die}
}

// live is the life of a victim's process.
func live(told string) error {
	var d order
	if err := json.Unmarshal([]byte(told), &d); err != nil {
		return err
	}
	w := &world{k: kind{shared: true, bells: d.Bells}, o: linktest.Options{
		Workers: d.Workers, RingBytes: d.RingBytes, InlineMax: d.InlineMax, Blocks: d.Blocks, BlockBytes: d.BlockBytes,
		Wait: func(int) error { return linktest.ErrNoRoom },
	}}
	out, in, rings, err := w.join(d.Worker, func(i int) (*shm.Segment, error) {
		return shm.Attach(os.NewFile(uintptr(3+i), "segment-"+strconv.Itoa(i)), w.want(d.Worker, i))
	})
	if err != nil {
		return err
	}
	m := &linktest.Ends{Out: make([][]router.Sender, d.Workers), In: make([]router.Receiver, d.Workers)}
	m.Out[d.Worker], m.In[d.Worker] = out, in
	a := linktest.NewActor(nil, m, d.Worker, func(to, size int) error {
		_, err := rings[to].Claim(size)
		return err
	})
	return a.Serve(os.Stdin, os.Stdout)
}

func TestMain(m *testing.M) {
	if told := os.Getenv(victimVariable); told != "" {
		if err := live(told); err != nil {
			fmt.Fprintln(os.Stderr, "victim:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
