// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// frame is one that no peer sends, and what the error says about it.
type frame struct {
	of   session.Type
	body []byte
	want string
}

// headed is a head with what is behind it.
func headed(h head, rest ...byte) []byte {
	b := make([]byte, headBytes)
	h.put(b)
	return append(b, rest...)
}

// packet is the body of a process frame.
func packet(t testing.TB, k child.Kind, set int, body child.Body) []byte {
	t.Helper()
	b, err := (&child.Packet{Kind: k, Set: set, Body: body}).Append(make([]byte, packetAt))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sharing sets which set's input a plan shares.
func sharing(set byte, b []byte) []byte {
	b[0] = set
	return b
}

// planBytes is a plan of one worker on machine 0.
func planBytes(t testing.TB, input int) []byte {
	t.Helper()
	p := planOf(input, 0)
	b, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// framesRig has two machines: on the first one set 0, whose worker 0 has a trace and no profile; on the second its
// worker 1. There is nobody on the other side of what is applied.
func framesRig(t testing.TB) (*rig, *made) {
	r := newRig(t, 2, nil)
	m := r.newSet(0, 100, 0, 1)
	theirs, trace := m.file()
	m.trace[0] = trace
	ours, control, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	m.ours[0] = ours
	m.ws.Start(0, child.Spec{Control: control, Trace: theirs})
	until(t, "a worker", func() bool { return r.sites[0].fake(0, 0) != nil })
	return r, m
}

func refused(t *testing.T, what string, f frame, err error) {
	t.Helper()
	bad := (*session.FrameError)(nil)
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), f.want) || bad.Byte < 0 ||
		bad.Byte > session.HeaderBytes+len(f.body) {
		t.Errorf("%s: %v, want %q", what, err, f.want)
	}
}

// Frames that no machine sends end its session, with what was found.
func TestHubRefuses(t *testing.T) {
	r, m := framesRig(t)
	defer r.close()
	defer m.close()
	text, numbers := &child.TextBody{}, make([]byte, numbersBytes)
	for what, f := range map[string]frame{
		"a type":                     {session.Records, nil, "type 1"},
		"a head cut short":           {session.Control, make([]byte, headBytes-1), "15 bytes"},
		"a control frame of no sort": {session.Control, headed(head{what: isEnd + 1}), "found 2"},
		"of no worker":               {session.Control, headed(head{worker: noWorker}), "no worker"},
		"of the machine itself":      {session.Control, headed(head{set: noSet, worker: noWorker}), "no worker"},
		"of a worker not started":    {session.Control, headed(head{worker: 1}), "found worker 1 of set 0"},
		"of a set that isn't":        {session.Control, headed(head{set: 1}), "worker 0 of set 1"},
		"an end with too few":        {session.Control, headed(head{what: isEnd}, numbers[1:]...), "bytes of a board"},
		"a file that isn't":          {session.Blob, headed(head{what: files}, 1), "found 5"},
		"an input":                   {session.Blob, headed(head{what: fileInput}, 1), "file 0"},
		"an input of the set":        {session.Blob, headed(head{worker: noWorker}, 1), "no worker"},
		"a profile":                  {session.Blob, headed(head{what: fileProfile}, 1), "file 2"},
		"a trace with a gap":         {session.Blob, headed(head{what: fileTrace, at: 1}, 1), "1 bytes from 1"},
		"a trace of nothing":         {session.Blob, headed(head{what: fileTrace}), "0 bytes from 0"},
		"no packet":                  {session.Process, nil, "a body of 0"},
		"a packet cut short":         {session.Process, []byte{0, 0, 0, 0, 1}, "the header 01"},
		"a packet of the hub's": {session.Process, packet(t, child.KindRelease, 0, &child.NoBody{}),
			"found release"},
		"a shared note": {session.Process, sharing(1, packet(t, child.KindNote, 0, text)),
			"found 1, allowed: 0"},
		"made twice":   {session.Process, packet(t, child.KindMade, 0, text), "set 0 made"},
		"made by none": {session.Process, packet(t, child.KindMade, 1, text), "set 1 made"},
		"closed":       {session.Process, packet(t, child.KindClose, 0, &child.NoBody{}), "set 0 closed"},
		"output of another machine": {session.Process, packet(t, child.KindOutput, 0, &child.OutputBody{Worker: 1}),
			"worker 1 of set 0"},
		"exit of none": {session.Process, packet(t, child.KindExit, 0, &child.ExitBody{Worker: 9}),
			"worker 9"},
		"a credit too much":          {session.Credit, headed(head{at: 1 << 40}), "credit 1099511627776"},
		"a credit cut":               {session.Credit, make([]byte, headBytes+1), "found 1 bytes"},
		"half a board":               {session.Boards, make([]byte, headBytes), "a body of 16"},
		"a board of another machine": {session.Boards, headed(head{worker: 1}, numbers...), "worker 1 of set 0"},
		"a board of no worker":       {session.Boards, headed(head{worker: 64}, numbers...), "worker 64 of set 0"},
		"a board of no set":          {session.Boards, headed(head{set: 7}, numbers...), "worker 0 of set 7"},
	} {
		on := session.Express
		if f.of == session.Blob {
			on = session.Bulk
		}
		refused(t, what, f, r.hub.Apply(0, on, session.Header{Type: f.of}, f.body))
	}
	behind := frame{session.Control, headed(head{worker: 1, at: 9}, 1), "behind 9 bytes of files"}
	m.start(1, false)
	until(t, "a worker", func() bool { return r.sites[1].fake(0, 1) != nil })
	refused(t, "behind files that there aren't", behind,
		r.hub.Apply(1, session.Express, session.Header{Type: behind.of}, behind.body))
	// More than was granted, of a worker whose launcher doesn't read.
	body := headed(head{what: isBytes}, make([]byte, chunkBytes)...)
	var err error
	for n := 0; n < 20 && err == nil; n++ {
		err = r.hub.Apply(0, session.Express, session.Header{Type: session.Control}, body)
	}
	refused(t, "more than was granted", frame{session.Control, body, "bytes in all"}, err)
	if cost := held(r.hub.machines[0].express, flowID{0, 0}); cost > windowBytes+costMost {
		t.Errorf("%d bytes wait", cost)
	}
}

// Frames that no hub sends end the session too.
func TestSpokeRefuses(t *testing.T) {
	r, m := framesRig(t)
	defer r.close()
	defer m.close()
	plan := &child.PlanBody{Plan: planBytes(t, 100)}
	start := func(w int) []byte { return packet(t, child.KindStart, 0, &child.StartBody{Worker: w}) }
	kill := packet(t, child.KindKill, 0, &child.WorkerBody{Worker: 0})
	release := packet(t, child.KindRelease, 0, &child.NoBody{})
	for _, body := range [][]byte{kill, release} {
		if err := r.spokes[0].Apply(session.Express, session.Header{Type: session.Process}, body); err != nil {
			t.Fatal(err)
		}
	}
	for what, f := range map[string]frame{
		"a type":                  {session.Status, nil, "type 19"},
		"bytes behind files":      {session.Control, headed(head{at: 1}, 1), "behind 1 bytes of files"},
		"an end with numbers":     {session.Control, headed(head{what: isEnd}, 1), "1 bytes"},
		"of no worker":            {session.Control, headed(head{worker: noWorker}), "worker 65535"},
		"of another machine's":    {session.Control, headed(head{worker: 1}), "worker 1 of set 0"},
		"of a set that isn't":     {session.Control, headed(head{set: 9}), "worker 0 of set 9"},
		"a trace":                 {session.Blob, headed(head{what: fileTrace}, 1), "found file 1"},
		"an input of a worker":    {session.Blob, headed(head{}, 1), "worker 0"},
		"too much input":          {session.Blob, headed(head{worker: noWorker, at: 100}, 1), "1 bytes from 100"},
		"input of a later set":    {session.Blob, headed(head{set: 1, worker: noWorker}, 1), "input of set 1"},
		"a packet of a machine's": {session.Process, packet(t, child.KindMade, 0, &child.TextBody{}), "found made"},
		"a plan of a set before":  {session.Process, packet(t, child.KindPlan, 0, plan), "set 0 beside 1"},
		"no plan": {session.Process, packet(t, child.KindPlan, 1, &child.PlanBody{}),
			"plan of 0 bytes"},
		"sharing a set that isn't": {session.Process, sharing(9, packet(t, child.KindPlan, 1, plan)), "input of set 9"},
		"sharing another size": {session.Process, packet(t, child.KindPlan, 1,
			&child.PlanBody{Plan: planBytes(t, 101)}), "input of set 0"},
		"a start twice":        {session.Process, start(0), "start of worker 0"},
		"a start of another's": {session.Process, start(1), "start of worker 1"},
		"a start of none":      {session.Process, start(worker.WorkersMax - 1), "start of worker 63"},
		"a kill twice":         {session.Process, kill, "kill of worker 0"},
		"a release twice":      {session.Process, release, "found release"},
		"a kill of one not started": {session.Process, packet(t, child.KindKill, 0, &child.WorkerBody{Worker: 1}),
			"kill of worker 1"},
		"a set that isn't there": {session.Process, packet(t, child.KindRelease, 9, &child.NoBody{}), "set 9"},
		"hello": {session.Process, packet(t, child.KindHello, 0, &child.Hello{Workers: 1}),
			"found hello"},
	} {
		on := session.Express
		if f.of == session.Blob {
			on = session.Bulk
		}
		refused(t, what, f, r.spokes[0].Apply(on, session.Header{Type: f.of}, f.body))
	}
	// A set that isn't made yet has no workers, and its input no memory.
	release2 := make(chan struct{})
	r.sites[0].making = func(child.Order) error { <-release2; return nil }
	next := frame{session.Process, sharing(2, packet(t, child.KindPlan, 2, plan)), ""}
	if err := r.spokes[0].Apply(session.Express, session.Header{Type: next.of}, next.body); err != nil {
		t.Fatal(err)
	}
	early := frame{session.Process, packet(t, child.KindStart, 2, &child.StartBody{}), "when the set was made"}
	refused(t, "a start too early", early,
		r.spokes[0].Apply(session.Express, session.Header{Type: early.of}, early.body))
	close(release2)
	r.spokes[0].Close()
	r.hub.Lost(0, "the test is over")
}

// What comes for a set that is being closed, or was, is dropped: it was on its way when the machine began to close the
// set by itself. What comes for a set that never was is refused still.
func TestFramesOfClosedSets(t *testing.T) {
	r := newRig(t, 1, nil)
	defer r.close()
	stays := make(chan struct{})
	r.sites[0].run = func(*fake) { <-stays }
	m := r.newSet(0, 100, 0)
	defer m.close()
	m.start(0, false)
	until(t, "a worker", func() bool { return r.sites[0].fake(0, 0) != nil })
	sp := r.spokes[0]
	check := func(when string) {
		t.Helper()
		for what, f := range map[string]frame{
			"a start":       {session.Process, packet(t, child.KindStart, 0, &child.StartBody{}), ""},
			"a kill":        {session.Process, packet(t, child.KindKill, 0, &child.WorkerBody{Worker: 0}), ""},
			"a release":     {session.Process, packet(t, child.KindRelease, 0, &child.NoBody{}), ""},
			"a close":       {session.Process, packet(t, child.KindClose, 0, &child.NoBody{}), ""},
			"control bytes": {session.Control, headed(head{}, 1), ""},
			"of no worker":  {session.Control, headed(head{worker: 1}, 1), ""},
		} {
			if err := sp.Apply(session.Express, session.Header{Type: f.of}, f.body); err != nil {
				t.Errorf("%s %s: %v", what, when, err)
			}
		}
		for what, f := range map[string]frame{
			"a kill":        {session.Process, packet(t, child.KindKill, 1, &child.WorkerBody{Worker: 0}), "set 1"},
			"a close":       {session.Process, packet(t, child.KindClose, 1, &child.NoBody{}), "set 1"},
			"control bytes": {session.Control, headed(head{set: 1}, 1), "worker 0 of set 1"},
		} {
			refused(t, what+" of no set "+when, f, sp.Apply(session.Express, session.Header{Type: f.of}, f.body))
		}
	}
	m.ws.Close()
	until(t, "its end to begin", func() bool {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		return sp.sets[0].closing
	})
	check("while the set is closed")
	close(stays)
	until(t, "the end of the set", func() bool { return r.sets(0) == 0 })
	check("behind that")
}

// FuzzFrames applies frames to both ends: none panics, none is held beyond its window, and what is refused is refused
// as a frame.
func FuzzFrames(f *testing.F) {
	f.Add(uint8(session.Control), headed(head{}, 1, 2, 3))
	f.Add(uint8(session.Blob), headed(head{what: fileTrace}, 1, 2, 3))
	f.Add(uint8(session.Credit), headed(head{at: 100}))
	f.Add(uint8(session.Boards), headed(head{}, make([]byte, numbersBytes)...))
	f.Add(uint8(session.Process), packet(f, child.KindExit, 0, &child.ExitBody{}))
	f.Add(uint8(session.Process), packet(f, child.KindKill, 0, &child.WorkerBody{}))
	f.Add(uint8(session.Process), sharing(1, packet(f, child.KindPlan, 1, &child.PlanBody{Plan: planBytes(f, 10)})))
	r, m := framesRig(f)
	f.Cleanup(func() {
		r.hub.Lost(0, "the test is over")
		m.close()
		r.spokes[0].Close()
		r.spokes[1].Close()
		r.hub.Close()
		r.closeSessions("the test is over")
		r.serving.Wait()
	})
	f.Fuzz(func(t *testing.T, of uint8, body []byte) {
		if plansMuch(body) {
			t.Skip("a plan of so much memory is carried out")
		}
		on := session.Express
		if session.Type(of) == session.Blob {
			on = session.Bulk
		}
		h := session.Header{Type: session.Type(of)}
		for _, err := range []error{r.hub.Apply(0, on, h, body), r.spokes[0].Apply(on, h, body)} {
			if bad := (*session.FrameError)(nil); err != nil && !errors.As(err, &bad) {
				t.Error(err)
			}
		}
		for _, c := range []*carrier{r.hub.machines[0].express, r.hub.machines[0].bulk, r.spokes[0].express} {
			if cost := held(c, flowID{0, 0}); cost > windowBytes+costMost {
				t.Errorf("%d bytes wait", cost)
			}
		}
	})
}

// plansMuch reports whether a process frame has a plan with more input than a test should make.
func plansMuch(body []byte) bool {
	var it item
	if _, err := it.parsePacket(body); err != nil || it.packet.Kind != child.KindPlan {
		return false
	}
	p, err := machine.ParsePlan(it.packet.Body.(*child.PlanBody).Plan)
	return err == nil && p.InputBytes > 1<<16
}
