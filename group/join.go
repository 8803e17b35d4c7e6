// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/machinefile"
	"github.com/disco-sim/disco/internal/session"
	"github.com/urfave/cli/v2"
)

func childCommand() app.Command {
	return app.Command{
		Name: child.Command, Hidden: true,
		Usage:       "is what a run over machines starts to join them; no command for people",
		Description: "`run FILE --machines MACHINES` starts it, and hands its flags on.",
		Flags: slices.Concat(groupcall.Flags(), securityFlags(), []cli.Flag{
			&cli.StringFlag{Name: "machines", Usage: "`FILE` that lists the machines"}, labelsFlag(),
			groupcall.ProgramFlag(),
			&cli.DurationFlag{Name: "connect-timeout", Value: 5 * time.Second,
				Usage: "`TIME` for each step of the start"},
			&cli.DurationFlag{Name: "peer-timeout", Value: 3 * time.Second, Usage: "`TIME` of silence"},
			&cli.DurationFlag{Name: "reconnect-window", Value: 10 * time.Second, Usage: "`TIME` to reconnect in"},
			&cli.StringFlag{Name: "compress", Usage: "`HOW`: none, s2, zstd or auto"},
			&cli.BoolFlag{Name: child.LeftFlag, Usage: "leave out machines that don't take the run"},
			&cli.StringSliceFlag{Name: child.WithoutFlag, Usage: "leave out the machine `NAME`"}}),
		Run: runChild,
	}
}

// runChild is the process that joins a run to its machines.
func runChild(c *app.Call) error {
	to, err := child.Inherit()
	if err != nil {
		return app.Usage("a run over machines starts this: `%s run FILE --machines MACHINES` (%v)", c.Program, err)
	}
	j := &joiner{call: c, to: to, measured: make(chan measured, offer.MachinesMax), changed: make(chan struct{}, 1),
		up: map[[2]int]bool{}, silent: map[[2]int]bool{}, gone: map[int]bool{}, unused: map[int]bool{}}
	j.close(to.Serve(j)) // the launcher was told of an error
	return nil
}

// joiner joins a run to its machines: the launcher's end of offers and sessions.
type joiner struct {
	call     *app.Call
	to       *child.Launcher
	security *stream.Security
	begin    offer.Begin
	targets  []offer.Target
	run      *offer.Run
	sessions *sessions
	measured chan measured
	changed  chan struct{} // has a value when up or failure has changed
	followed sync.WaitGroup

	measuring sync.WaitGroup // by this process
	freeing   sync.WaitGroup // of machines

	mu      sync.Mutex
	up      map[[2]int]bool // pairs of machines that are connected, as the first one says
	silent  map[[2]int]bool // those of them where nothing comes from the second one
	away    bool            // machines are cut off, or silent, as the launcher knows
	gone    map[int]bool    // machines that are lost, which nobody waits for
	failure error           // the first one
	hub     *relay.Hub      // nil: there are no sessions yet
	known   bool            // the launcher has been told of the machines
	made    bool            // there is a plan, or there will be none
	went    bool            // the run outlives the streams of its offers
	keeps   []int           // slots of each machine that the run keeps from the next plan on; nil: all
	unused  map[int]bool    // machines of which it keeps none, and that may end
	closing bool            // what ends now ends as it should
	chose   bool            // some compression was chosen by what was measured
}

// measured is what a machine has measured.
type measured struct {
	from int
	way  offer.Measure
}

var _ child.Host = (*joiner)(nil)

// Machines implements child.Host.
func (j *joiner) Machines(h child.Hello, givenUp <-chan struct{}) (child.Network, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-givenUp:
			cancel(errors.New("the launcher has ended the run"))
		case <-ctx.Done():
		}
	}()
	n, err := j.join(ctx, h)
	if err != nil {
		return n, child.Refuse(err)
	}
	return n, nil
}

// join opens the run on all machines, joins these, and measures what lies between them.
func (j *joiner) join(ctx context.Context, h child.Hello) (n child.Network, err error) {
	what, err := j.prepare(ctx, h)
	if err != nil {
		return n, err
	}
	if err := j.open(ctx, what); err != nil {
		return n, err
	}
	j.followed.Go(j.follow)
	if err := j.connect(ctx, what); err != nil {
		return n, err
	}
	count := len(j.targets)
	n.RoundTrip, n.SecondsPerByte = make([]float64, count*count), make([]float64, count*count)
	for i, t := range j.targets {
		a := j.run.Accepted(i)
		n.Machines = append(n.Machines, child.Machine{Name: t.Name, Slots: a.Slots, Processors: a.Processors})
	}
	if err := j.measure(ctx, &n); err != nil {
		return n, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known, n.Silence = true, j.begin.PeerTimeout
	j.sendAway()
	return n, j.failure
}

// limited is a context for one step of the start.
func (j *joiner) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := j.begin.ConnectTimeout
	return context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("the --connect-timeout of %v is over", limit))
}

// prepare reads the flags and the list of machines.
func (j *joiner) prepare(ctx context.Context, h child.Hello) (*offer.Offer, error) {
	c := j.call
	j.begin = offer.Begin{ConnectTimeout: c.Duration("connect-timeout"), PeerTimeout: c.Duration("peer-timeout"),
		Window: c.Duration("reconnect-window")}
	list, err := j.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(list.Machines) > machinefile.MachinesMax {
		return nil, fmt.Errorf("%s has %d machines, want at most %d: --labels chooses", list.File, len(list.Machines),
			machinefile.MachinesMax)
	}
	if j.security, err = securityOf(c); err != nil {
		return nil, err
	}
	if err := checkAddresses(list, j.security); err != nil {
		return nil, err
	}
	if j.begin.Compress, err = compression(c.String("compress"), list); err != nil {
		return nil, err
	}
	for _, t := range targetsOf(list) {
		if !slices.Contains(c.StringSlice(child.WithoutFlag), t.Name) {
			j.targets = append(j.targets, t)
		}
	}
	if len(j.targets) == 0 {
		return nil, errors.New("no machine is left")
	}
	o := &offer.Offer{Disco: app.Version(), Cluster: c.String("group"), Name: h.Run, Most: h.Workers}
	if o.Most == 0 {
		o.Most = offer.SlotsMax
	}
	for i := range j.targets {
		j.targets[i].Slots = min(j.targets[i].Slots, o.Most)
	}
	f, programs, err := groupcall.OpenProgram(c)
	if err != nil {
		return nil, err
	}
	o.Program = programs
	o.Bridge, err = digest()
	return o, errors.Join(err, f.Close())
}

// list is the machines of the run.
func (j *joiner) list(ctx context.Context) (*machinefile.List, error) {
	list, err := listOf(j.call, j.call.String("machines"))
	if list != nil || err != nil {
		return list, err
	}
	s, err := groupcall.Connect(ctx, j.call, groupcall.Looks)
	if err != nil {
		return nil, err
	}
	v, err := openView(ctx, j.call, s)
	if err == nil {
		list, err = listIn(j.call, v)
		v.Close()
	}
	return list, errors.Join(err, s.Close())
}

// compression is what --compress says; where it isn't given, each pair chooses, unless all machines are on the
// loopback.
func compression(name string, list *machinefile.List) (int, error) {
	if name != "" {
		c, err := stream.ParseCompression(name)
		if err != nil {
			return 0, app.Usage("--compress: %v", err)
		}
		return int(c), nil
	}
	for _, m := range list.Machines {
		if !stream.OnLoopback(m.Address) {
			return int(stream.Auto), nil
		}
	}
	return int(stream.None), nil
}

// connect opens the sessions, and returns when each machine is connected with each other and with this one.
func (j *joiner) connect(ctx context.Context, what *offer.Offer) (err error) {
	if err := j.run.Begin(j.begin); err != nil {
		return err
	}
	own := j.begin
	for i, t := range j.targets {
		own.Peers = append(own.Peers, offer.Peer{Machine: i, Name: t.Name, Address: t.Address})
	}
	identity := session.Identity{Cluster: what.Cluster, Run: what.Run, Token: what.Token, Program: what.Program,
		Incarnation: incarnation()}
	j.sessions, err = newSessions(sessionsConfig{self: launcherMachine, identity: identity, security: j.security,
		begin: &own, contact: func(c offer.Contact) { j.contact(launcherMachine, &c) },
		lost:   j.lose,
		chosen: func(c stream.Choice) { j.noteChoice(c.String()) }})
	if err != nil {
		return err
	}
	cfg := relay.HubConfig{To: reports{j.to, j}, MakeTimeout: max(j.begin.ConnectTimeout, makeTimeout),
		RefuseTimeout: j.begin.ConnectTimeout}
	for i, t := range j.targets {
		cfg.Machines = append(cfg.Machines, relay.Machine{Name: t.Name, Sessions: j.sessions.pair(i).sessions})
	}
	hub := relay.NewHub(cfg)
	j.mu.Lock()
	j.hub = hub
	j.mu.Unlock()
	j.sessions.serve(hub)
	return j.awaitContacts(ctx)
}

// awaitContacts returns when all machines are connected. The bridges' own limit is half of this one's, and they know
// the reason.
func (j *joiner) awaitContacts(ctx context.Context) error {
	limit := time.NewTimer(0)
	defer limit.Stop()
	for before := -1; ; {
		j.mu.Lock()
		up, err := len(j.up), j.failure
		j.mu.Unlock()
		if err != nil || up == len(j.targets)*(len(j.targets)+1) {
			return err
		}
		if up > before {
			before = up
			limit.Reset(2 * j.begin.ConnectTimeout)
		}
		select {
		case <-j.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("%s: no more of them within twice the --connect-timeout of %v", j.apart(),
				j.begin.ConnectTimeout)
		}
	}
}

// apart names the machines that aren't connected.
func (j *joiner) apart() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for a := launcherMachine; a < len(j.targets); a++ {
		for b := a + 1; b < len(j.targets); b++ {
			if !j.up[[2]int{a, b}] || !j.up[[2]int{b, a}] {
				all = append(all, j.name(a)+" and "+j.name(b))
			}
		}
	}
	return "these machines aren't connected: " + strings.Join(all, ", ")
}

// name is that of a machine.
func (j *joiner) name(machine int) string {
	if machine < 0 || machine >= len(j.targets) {
		return "the launcher's machine"
	}
	return j.targets[machine].Name
}

// noteChoice shows which compression was chosen.
func (j *joiner) noteChoice(text string) {
	j.mu.Lock()
	j.chose = true
	j.mu.Unlock()
	j.to.Note(text)
}

// End implements child.Host. Who has asked for a choice gets to know that there was none.
func (j *joiner) End() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.went && !j.chose && j.call.String("compress") == stream.Auto.String() {
		j.to.Note(fmt.Sprintf("--compress auto: nothing was compressed, as the run has ended before that was decided, "+
			"by the first %d MiB that a connection of two machines carries", stream.SampleBytes>>20))
	}
}

// wake wakes who waits for a change.
func (j *joiner) wake() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// follow takes what agents report, until the run is closed.
func (j *joiner) follow() {
	for {
		r, err := j.run.Next(context.Background())
		if err != nil {
			return
		}
		j.report(r)
	}
}

func (j *joiner) report(r offer.Report) {
	if r.Err != nil {
		j.mu.Lock()
		went, unused := j.went, j.unused[r.Machine]
		j.mu.Unlock()
		switch {
		case errors.Is(r.Err, io.EOF), unused: // it has said how the run has ended
		case went:
			j.to.Note(fmt.Sprintf("the agent of %s says nothing more about the run, which goes on as long as that "+
				"machine is connected", j.name(r.Machine)))
		default:
			j.lose(loss{r.Machine, &reason{r.Machine, r.Err.Error()}})
		}
		return
	}
	switch m := r.Message; m.Type {
	case offer.TypeContact:
		j.contact(r.Machine, m.Contact)
	case offer.TypeMeasured:
		select {
		case j.measured <- measured{r.Machine, *m.Measure}:
		default: // nobody has asked for so many
		}
	case offer.TypeNote:
		if text := j.name(r.Machine) + ": " + m.Note.Text; strings.HasPrefix(m.Note.Text, stream.ChoicePrefix) {
			j.noteChoice(text)
		} else {
			j.to.Note(text)
		}
	case offer.TypeEnded:
		why := &reason{r.Machine, "the run has ended there"}
		if !m.Reason.OK {
			why = readReason(r.Machine, m.Reason.Text)
		}
		if why.machine == r.Machine {
			why.text = "machine " + j.name(r.Machine) + ": " + why.text
		}
		j.lose(loss{r.Machine, why})
	}
}

// lose takes that a machine is lost for the run, and before it the one where that began.
func (j *joiner) lose(l loss) {
	j.mu.Lock()
	hub, closing := j.hub, j.closing || j.unused[l.machine]
	if !closing && j.failure == nil {
		j.failure = errors.New(l.reason.text)
		j.wake()
	}
	if !closing {
		j.gone[l.machine] = true
	}
	j.mu.Unlock()
	if closing || hub == nil {
		return
	}
	if m := l.reason.machine; m >= 0 && m < len(j.targets) {
		hub.Lost(m, l.reason.text)
	}
	hub.Lost(l.machine, l.reason.text)
}

// reports are what the hub reports to the launcher.
type reports struct {
	*child.Launcher
	j *joiner
}

// Lost implements relay.Launcher. Before the first plan the launcher isn't told: the plan is refused.
func (r reports) Lost(machine int, text string) {
	r.j.mu.Lock()
	if r.j.unused[machine] {
		r.j.mu.Unlock()
		return
	}
	made := r.j.made
	if r.j.failure == nil {
		r.j.failure = errors.New(text)
		r.j.wake()
	}
	r.j.mu.Unlock()
	if made {
		r.Launcher.Lost(machine, text)
	}
}

// makeTimeout is how long machines may make the memory of a set without progress, at least.
const makeTimeout = time.Minute

// measureLimit is how long pairs of machines begin to be measured.
const measureLimit = 2 * time.Second

// measure measures what lies between all machines, in rounds in each of which each machine is in one pair at most. Of
// pairs that are left over nothing is known.
func (j *joiner) measure(ctx context.Context, n *child.Network) error {
	began, count := time.Now(), len(j.targets)
	for _, round := range rounds(count + 1) {
		if time.Since(began) > measureLimit {
			return nil
		}
		waits := 0
		for _, pair := range round {
			a, b := pair[0]+launcherMachine, pair[1]+launcherMachine
			waits++
			if a != launcherMachine {
				if err := j.run.Measure(a, b); err != nil {
					return err
				}
				continue
			}
			k := j.sessions.pair(b)
			j.measuring.Go(func() {
				m := measured{from: a}
				j.hub.Alone(b, func() { m.way = k.gauge.measure(b, k.sessions) })
				j.measured <- m
			})
		}
		late := time.NewTimer(probesLimit + rateLimit + j.begin.PeerTimeout)
		for ; waits > 0; waits-- {
			select {
			case m := <-j.measured:
				if a, b := m.from, m.way.Machine; a >= 0 && a < b && b < count {
					for _, at := range []int{a*count + b, b*count + a} {
						n.RoundTrip[at], n.SecondsPerByte[at] = m.way.RoundTrip.Seconds(), m.way.SecondsPerByte
					}
				}
			case <-ctx.Done():
				late.Stop()
				return context.Cause(ctx)
			case <-late.C:
				waits = 1 // nothing is known of the others
			}
		}
		late.Stop()
	}
	j.measuring.Wait()
	return nil
}

// rounds are all pairs of n players, the lower number first, so that each is in one pair of a round at most.
func rounds(n int) (all [][][2]int) {
	even := n + n%2
	for r := range even - 1 {
		var round [][2]int
		for k := range even / 2 {
			a, b := (r+k)%(even-1), (r-k+even-1)%(even-1)
			if k == 0 {
				b = even - 1
			}
			if a, b = min(a, b), max(a, b); b < n {
				round = append(round, [2]int{a, b})
			}
		}
		all = append(all, round)
	}
	return all
}

// Make implements child.Host. What goes wrong before the run is on its way can be changed by who began it.
func (j *joiner) Make(o child.Order) (child.Workers, string, error) {
	j.mu.Lock()
	j.made = true
	err := j.failure
	j.mu.Unlock()
	var w child.Workers
	var remark string
	if err == nil {
		w, remark, err = j.hub.Make(o)
	}
	switch {
	case err == nil && !j.went:
		if err = j.run.Go(); err == nil {
			j.mu.Lock()
			j.went = true
			j.mu.Unlock()
		} else {
			w.Close()
		}
	case err != nil && j.went:
		err = errors.New(err.Error()) // no refusal any more
	case err != nil:
		err = child.Refuse(err)
	}
	if err == nil {
		j.free()
	}
	return w, remark, err
}

// close ends the run on all machines, in order if nothing has gone wrong, and returns when all is free there, or after
// a while.
func (j *joiner) close(err error) {
	if j.run == nil {
		return
	}
	j.mu.Lock()
	j.closing = true
	err = cmp.Or(err, j.failure)
	orderly := err == nil && j.went
	j.mu.Unlock()
	reason := ""
	switch {
	case orderly:
	case err != nil:
		reason = "the launcher has ended the run: " + err.Error()
	default:
		reason = "the launcher has ended the run before it began"
	}
	if j.sessions != nil && !orderly {
		_ = j.sessions.close(reason) // first: it ends what waits for other machines
	}
	j.measuring.Wait()
	j.freeing.Wait()
	if j.hub != nil {
		j.hub.Close()
	}
	if orderly {
		j.sessions.finish()
		_ = j.sessions.close("") // the run has ended for the launcher in any case
	}
	for m := range j.gone {
		j.run.Drop(m)
	}
	j.run.Close()
	j.followed.Wait()
}
