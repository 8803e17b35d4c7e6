// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/certs"
)

// limit ends a test that waits for what doesn't come.
func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func plain(t testing.TB) *stream.Security {
	t.Helper()
	s, err := stream.NewSecurity("", 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// authority is a folder of a new authority, and a function that makes machines of it.
func authority(t testing.TB) (machine func(v certs.Validity, hosts ...string) (dir string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	if err := certs.Init(dir, certs.Period(1)); err != nil {
		t.Fatal(err)
	}
	return func(v certs.Validity, hosts ...string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "machine")
		if err := certs.Issue(dir, out, hosts, v); err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func secure(t testing.TB, dir string) *stream.Security {
	t.Helper()
	s, err := stream.NewSecurity(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agentHere is an agent whose works only note what they get.
type agentHere struct {
	*Server
	book    *Book
	address string
	fails   error // of Start

	mu      sync.Mutex
	works   []*noted
	refused []string
}

// noted is a work that ends when it is left before it goes, or is done.
type noted struct {
	agent   *agentHere
	run     [16]byte
	reports chan *Message
	gone    <-chan struct{}

	mu   sync.Mutex
	got  []Type
	left int
	over bool
}

func (w *noted) Take(m *Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, m.Type)
	switch m.Type {
	case TypeOffer:
		return errors.New("a second offer")
	case TypeDone:
		w.end(true, "")
	}
	return nil
}

func (w *noted) Reports() <-chan *Message { return w.reports }

func (w *noted) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left++; len(w.got) == 0 || w.got[len(w.got)-1] == TypeBegin {
		w.end(false, "left")
	}
}

// end is called with mu held.
func (w *noted) end(ok bool, text string) {
	if w.over {
		return
	}
	w.over = true
	w.agent.book.Free(w.run)
	go func() {
		select {
		case w.reports <- &Message{Type: TypeEnded, Reason: &Reason{ok, text}}:
		case <-w.gone:
		}
		close(w.reports)
	}()
}

func newAgent(t testing.TB, address string, s *stream.Security, what Agent) *agentHere {
	t.Helper()
	l, err := stream.Listen(address, s)
	if err != nil {
		t.Fatal(err)
	}
	a := &agentHere{book: NewBook(what), address: l.Addr().String()}
	a.Server = Serve(l, ServerConfig{Security: s, Book: a.book,
		Measure: func() Measured { return Measured{8, 1 << 30, 0.5} },
		Start: func(o *Offer, gone <-chan struct{}) (Work, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.fails != nil {
				a.book.Free(o.Run)
				return nil, a.fails
			}
			w := &noted{agent: a, run: o.Run, reports: make(chan *Message), gone: gone}
			a.works = append(a.works, w)
			return w, nil
		},
		Refused: func(err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.refused = append(a.refused, err.Error())
		}})
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// await waits for a condition.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func agentNamed(name string, instance byte, slots int) Agent {
	a := theAgent
	a.Name, a.Instance, a.Slots = name, [16]byte{instance}, slots
	return a
}

// TestRun: a run is offered to three machines, begins, goes and is done; all is free then.
func TestRun(t *testing.T) {
	dir := authority(t)(certs.Period(1), "127.0.0.1", "127.0.0.2", "127.0.0.3")
	s := secure(t, dir)
	var targets []Target
	var agents []*agentHere
	for i := range 3 {
		a := newAgent(t, fmt.Sprintf("127.0.0.%d:0", i+1), s, agentNamed(fmt.Sprint("h", i), byte(i), 4))
		agents = append(agents, a)
		targets = append(targets, Target{Name: fmt.Sprint("m", i), Address: a.address, Slots: i})
	}
	ctx := limit(t)
	run, err := Open(ctx, targets, *asked(1, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for i, slots := range []int{4, 1, 2} {
		if a := run.Accepted(i); a.Slots != slots || a.Free != 4-slots || a.Processors != 8 || a.Memory != 1<<30 ||
			a.Instance[0] != byte(i) {
			t.Errorf("%d: %+v", i, a)
		}
	}
	if err := errors.Join(run.Begin(Begin{ConnectTimeout: 1e9, PeerTimeout: 1e9, Window: 1e9}), run.Go()); err != nil {
		t.Fatal(err)
	}
	agents[1].works[0].reports <- &Message{Type: TypeContact, Contact: &Contact{Machine: 2, State: ContactUp}}
	if r, err := run.Next(ctx); err != nil || r.Machine != 1 || r.Err != nil || r.Message.Contact.Machine != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := run.Done(); err != nil {
		t.Fatal(err)
	}
	ends := 0
	for range 6 {
		r, err := run.Next(ctx)
		switch {
		case err == nil && r.Err == nil && r.Message.Type == TypeEnded && r.Message.Reason.OK:
		case err == nil && r.Err == io.EOF:
			ends++
		default:
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, a := range agents {
		if free := a.book.Status().Free; free != 4 {
			t.Errorf("%d slots are free", free)
		}
		if got := fmt.Sprint(a.works[0].got); got != "[begin go done]" {
			t.Errorf("found %s", got)
		}
	}
	if ends != 3 {
		t.Errorf("%d ends", ends)
	}
}

// TestAllOrNothing: all failures are named at once, each with its machine, and nothing is left on the machines that
// have accepted, when Open returns.
func TestAllOrNothing(t *testing.T) {
	s := plain(t)
	good := newAgent(t, "127.0.0.1:0", s, agentNamed("good", 1, 4))
	full := newAgent(t, "127.0.0.2:0", s, agentNamed("full", 2, 1))
	failing := newAgent(t, "127.0.0.3:0", s, agentNamed("failing", 3, 1))
	failing.fails = errors.New("there is no memory")
	nothing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := nothing.Addr().String()
	nothing.Close()
	_, err = Open(limit(t), []Target{{"good", good.address, 2}, {"full", full.address, 2},
		{failing.address, failing.address, 1}, {"dead", dead, 1}, {"far", "192.0.2.1:7400", 1}}, *asked(1, nil), s)
	for _, want := range []string{
		"full: machine " + full.address + " refuses: slots wanted: 2, free: 1 of 1: want fewer",
		"machine " + failing.address + " refuses: there is no memory",
		"dead: machine " + dead + ": no agent listens there",
		"far: found --insecure with the address 192.0.2.1:7400",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "good") {
		t.Errorf("the machine that has accepted is named: %v", err)
	}
	for _, a := range []*agentHere{good, full, failing} {
		if s := a.book.Status(); s.Free != s.Slots {
			t.Errorf("%s: %d slots are free", s.Name, s.Free)
		}
	}
	if len(good.works) != 1 || good.works[0].left == 0 {
		t.Error("the good one isn't left")
	}
}

// TestOneAgentTwice: two addresses that lead to one agent are named with each other.
func TestOneAgentTwice(t *testing.T) {
	s := plain(t)
	a := newAgent(t, "127.0.0.1:0", s, agentNamed("one", 1, 4))
	_, port, _ := net.SplitHostPort(a.address)
	_, err := Open(limit(t), []Target{{"a", a.address, 1}, {"b", "localhost:" + port, 1}}, *asked(1, nil), s)
	if err == nil || !strings.Contains(err.Error(),
		"both addresses lead to the agent of one; name each machine once") ||
		!strings.Contains(err.Error(), "a at "+a.address) || !strings.Contains(err.Error(), "b at localhost:"+port) {
		t.Error(err)
	}
	if free := a.book.Status().Free; free != 4 {
		t.Errorf("%d slots are free", free)
	}
}

// TestLauncherLeaves: a run whose launcher closes it before it goes, or is gone, is left. One that has gone goes on.
func TestLauncherLeaves(t *testing.T) {
	s := plain(t)
	a := newAgent(t, "127.0.0.1:0", s, theAgent)
	targets := []Target{{"a", a.address, 1}}
	ctx := limit(t)
	open := func(run byte) *Run {
		t.Helper()
		r, err := Open(ctx, targets, *asked(run, nil), s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open(1)
	r.Close()
	if free := a.book.Status().Free; free != 4 {
		t.Errorf("closed: %d slots are free", free)
	}
	r = open(2)
	if err := r.Begin(Begin{ConnectTimeout: 1e9, PeerTimeout: 1e9, Window: 1e9}); err != nil {
		t.Fatal(err)
	}
	r.offered[0].client.Close() // as if it were killed
	await(t, "it is free", func() bool { return a.book.Status().Free == 4 })
	r.Close()
	r = open(3)
	if err := errors.Join(r.Begin(Begin{ConnectTimeout: 1e9, PeerTimeout: 1e9, Window: 1e9}), r.Go()); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	w := a.works[2]
	a.mu.Unlock()
	await(t, "go has come", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.got) == 2 })
	r.offered[0].client.Close()
	await(t, "it is left", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.left > 0 })
	if free := a.book.Status().Free; free != 3 {
		t.Errorf("gone on: %d slots are free", free)
	}
	r.Close()
}

// TestAgentEnds: the launcher gets to know that an agent has ended.
func TestAgentEnds(t *testing.T) {
	s := plain(t)
	a := newAgent(t, "127.0.0.1:0", s, theAgent)
	ctx := limit(t)
	r, err := Open(ctx, []Target{{"a", a.address, 1}}, *asked(1, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_ = a.Close()
	report, err := r.Next(ctx)
	if err != nil || report.Err == nil || !strings.Contains(report.Err.Error(), "a at "+a.address) {
		t.Errorf("%+v, %v", report, err)
	}
	await(t, "it is left", func() bool { return a.book.Status().Free == 4 })
}

// TestMistakenMessages: what is no offer is answered with a reason, and reserves nothing.
func TestMistakenMessages(t *testing.T) {
	a := newAgent(t, "127.0.0.1:0", plain(t), theAgent)
	ctx := limit(t)
	c, err := Dial(ctx, a.address, plain(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g, _ := Append(nil, &Message{Type: TypeGo})
	for text, want := range map[string]string{
		"":                                 "found a message of 0 bytes",
		"\x02\x00\x00\x00":                 "found a message of 4 bytes",
		"\x01\x00\x00\x00\x01\x00\x00\x00": "found version 1 of the messages",
		"\x02\x00\x00\x00\xff\x00\x00\x00": "found no such type",
		string(g):                          "found a message go, want offer",
	} {
		answer, err := c.raw(ctx, []byte(text))
		if err != nil || answer.Type != TypeRefused || !strings.Contains(answer.Refused.Text, want) {
			t.Errorf("%q: %+v, %v; want %q", text, answer, err, want)
		}
	}
	if _, err := c.raw(ctx, make([]byte, MessageBytesMax+100)); err == nil {
		t.Error("a message that is too large is taken")
	}
	if free := a.book.Status().Free; free != 4 {
		t.Errorf("%d slots are free", free)
	}
}

// raw sends bytes as an offer, and gives the answer.
func (c *Client) raw(ctx context.Context, b []byte) (*Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/"+serviceName+"/"+offersMethod)
	if err == nil {
		err = g.SendMsg(&wrapperspb.BytesValue{Value: b})
	}
	if err != nil {
		return nil, err
	}
	return receive(g)
}

// TestLook: an agent says how it is; the clocks of one machine don't differ by more than the round trip.
func TestLook(t *testing.T) {
	a := newAgent(t, "127.0.0.1:0", plain(t), theAgent)
	if _, refused := a.book.Take(asked(1, nil), "somewhere:1"); refused != nil {
		t.Fatal(refused)
	}
	ctx := limit(t)
	c, err := Dial(ctx, a.address, plain(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Look(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if l.Name != "h1" || l.Slots != 4 || l.Free != 3 || l.Load != 0.5 || l.Program != theAgent.Program ||
		len(l.Runs) != 1 || l.Runs[0].Name != "run b" || l.Runs[0].From != "somewhere:1" {
		t.Errorf("%+v", l.Status)
	}
	if l.RoundTrip < 0 || l.Offset.Abs() > l.RoundTrip+time.Second { // somebody may set the clock meanwhile
		t.Errorf("round trip %v, offset %v", l.RoundTrip, l.Offset)
	}
	if rate, err := c.Rate(ctx, l.RoundTrip); err != nil || !(rate > 0) || math.IsInf(rate, 0) {
		t.Errorf("found a rate of %v bytes a second, %v", rate, err)
	}
	c.Close()
	if rate, err := c.Rate(ctx, l.RoundTrip); err == nil {
		t.Errorf("found a rate of %v bytes a second of a connection that has ended", rate)
	}
}

// TestHealth: clients of gRPC that aren't ours see the agent's health, and that of runs, over TLS.
func TestHealth(t *testing.T) {
	dir := authority(t)(certs.Period(1), "127.0.0.1")
	a := newAgent(t, "127.0.0.1:0", secure(t, dir), theAgent)
	id, err := certs.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	client := id.Client("127.0.0.1")
	client.NextProtos = []string{"h2"}
	cc, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(credentials.NewTLS(client)))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx := limit(t)
	health := grpc_health_v1.NewHealthClient(cc)
	check := func(name string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || got.Status != want {
			t.Errorf("%q: %v, %v; want %v", name, got, err, want)
		}
	}
	const serving, not = grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	check("", serving)
	if _, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "run b"}); status.Code(err) !=
		codes.NotFound {
		t.Error(err)
	}
	w, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "run b"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := w.Recv(); err != nil || got.Status != want {
			t.Errorf("watched: %v, %v; want %v", got, err, want)
		}
	}
	next(grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN)
	if _, refused := a.book.Take(asked(1, func(o *Offer) { o.Slots = 4 }), "x"); refused != nil {
		t.Fatal(refused)
	}
	next(serving)
	check("", not)
	check("run b", serving)
	if all, err := health.List(ctx, &grpc_health_v1.HealthListRequest{}); err != nil || len(all.Statuses) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	a.book.Free([16]byte{1})
	next(grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN)
	a.book.End()
	check("", not)
}
