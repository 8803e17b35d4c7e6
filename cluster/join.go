// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/metastore"
)

// Runner does what requests ask of one server. One goroutine calls its methods, one at a time. ctx ends when another
// request takes the place of the one that is carried out: return soon then.
type Runner interface {
	// Initialize loads a partition and returns the nodes that it hosts.
	Initialize(ctx context.Context, a Assignment) (nodes []string, err error)
	// Activate starts the partition, or goes on after a pause.
	Activate(ctx context.Context) error
	// Pause stops it; messages are still taken in.
	Pause(ctx context.Context) error
	// Terminate gives the partition up, however far it has got, also after an error of another method. Afterwards the
	// server can be used again; an error breaks it.
	Terminate(ctx context.Context) error
}

// Options are what a member is and offers.
type Options struct {
	Name        string // of the member, one name of a key
	Version     string // of the program
	Digest      string // of the program's file
	Address     string // for other machines; "" has none
	Application string
	Slots       int
	Roles       []string
	Labels      map[string]string
	MixedBuilds bool // join members of another version, too

	// Runner makes what does the work of a slot. What happens to it between requests it reports by the Slot's methods
	// of Reporter.
	Runner func(slot int, r *Reporter) Runner

	// StopAfter ends the servers' work when the session has been lost for so long: 0 never does, so that a store's
	// outage stops nothing.
	StopAfter time.Duration

	// Report gets what goes wrong where no caller waits, and that a lost session is over. Any goroutine calls it.
	Report func(problem error)
}

// Membership is this program's presence in the cluster. While the store can't be reached its servers go on as they
// are; after a lost session it registers anew, with another incarnation and the states that the servers have by then.
type Membership struct {
	store   *metastore.Store
	options Options
	servers []*serverLoop
	up      chan struct{} // closed when it is up for the first time
	done    chan struct{}

	statusMu sync.Mutex // held while the member's key is written

	mu      sync.Mutex
	member  Member            // as it is in the store, or is to be
	version metastore.Version // of its key: the guard of all that its servers write
	owner   uint64            // of its key, in the last life
	life    *life             // nil while there is no session
	began   chan struct{}     // closed when the next life begins
	written map[string]State  // the servers whose state is in the store in this life
	changed chan struct{}     // written has changed; a life takes it
	left    chan struct{}     // closed by Leave
	leaving context.Context   // nil until then
	err     error             // of leaving
}

// present has the incarnations of this process that haven't left (*Membership by string): a registration of this
// process with another one was left behind by a member that left during an outage.
var present sync.Map

// errUnreadable: the member's own key holds what is no member.
var errUnreadable = errors.New("is no member's value")

// errLifeOver: the registration that a write belongs to has ended.
var errLifeOver = errors.New("the registration has ended")

// Join registers a member with all its servers, and returns when all of them are there. It fails where the name is
// taken, or the cluster has another format or, unless builds may be mixed, another version. ctx is for joining only.
// The store stays open for as long as the member lasts: closing it ends the member as Leave does.
func Join(ctx context.Context, store *metastore.Store, options Options) (*Membership, error) {
	m, err := newMembership(store, options)
	if err != nil {
		return nil, err
	}
	if err := m.register(ctx); err != nil {
		m.absent()
		return nil, fmt.Errorf("cluster: joining as %q: %w", options.Name, err)
	}
	for slot := range options.Slots {
		m.servers = append(m.servers, newServerLoop(m, slot))
	}
	go m.run()
	select {
	case <-m.up:
		return m, nil
	case <-ctx.Done():
		err = fmt.Errorf("%w, and %s", context.Cause(ctx), m.lacks())
	case <-store.Closed():
		err = metastore.ErrClosed
	case <-store.Wrong():
		err = metastore.ErrWrongCluster
	}
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return nil, errors.Join(fmt.Errorf("cluster: joining as %q: %w", options.Name, err), m.Leave(short))
}

// AwaitName returns once a member of these options could have its name, as far as others have it: nobody has, or only a
// process that is no more. It waits for them, and fails, as Join does. It is for who has to begin something before
// Join that would be in the way of the one who has the name; Join may still fail.
func AwaitName(ctx context.Context, store *metastore.Store, options Options) error {
	m, err := newMembership(store, options)
	if err != nil {
		return err
	}
	for w := (waiting{m: m, began: time.Now()}); ; {
		if _, err = m.holder(ctx); err == nil || errors.Is(err, errLastGone) {
			return nil
		}
		again, err := w.passes(ctx, err)
		if !again {
			return fmt.Errorf("cluster: joining as %q: %w", options.Name, err)
		}
	}
}

// newMembership is one that isn't registered.
func newMembership(store *metastore.Store, options Options) (*Membership, error) {
	if options.Report == nil {
		options.Report = func(error) {}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Membership{store: store, options: options, up: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}, 1), left: make(chan struct{}), began: make(chan struct{}),
		member: Member{Name: options.Name, Layout: Layout, Version: options.Version, Digest: options.Digest,
			Address: options.Address, Host: host, Pid: os.Getpid(), Origin: origin(), Slots: options.Slots,
			Roles: options.Roles, Labels: options.Labels}}, nil
}

// register makes the member's key, with a new incarnation, in the session that lives now. What a dead process has left
// there goes before.
func (m *Membership) register(ctx context.Context) error {
	for _, key := range Base() { // somebody may have deleted them since
		if err := m.store.Ensure(ctx, key); err != nil {
			return err
		}
	}
	if err := m.compatible(ctx); err != nil {
		return err
	}
	w := waiting{m: m, began: time.Now()}
	for try := 0; ; try++ {
		left, err := m.create(ctx)
		again, err := w.passes(ctx, err)
		if again {
			continue
		}
		if errors.Is(err, errLastGone) && pause(ctx, try) == nil {
			continue
		}
		if err != nil || left == nil {
			return err
		}
		err = m.store.Commit(ctx, []metastore.Cond{*left}, []metastore.Op{{Path: left.Path, Do: metastore.Delete}})
		if !changedBefore(err) { // by what the process had sent before it died, or by its session's end
			if err != nil {
				return err
			}
			continue
		}
		if cause := pause(ctx, try); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
}

// waiting waits for the end of a registration of somewhere else.
type waiting struct {
	m     *Membership
	began time.Time
	said  bool
}

// passes waits a moment where an error is about a registration that may end by itself; again: it is to be tried again.
func (w *waiting) passes(ctx context.Context, err error) (again bool, _ error) {
	taken := (*takenError)(nil)
	if !errors.As(err, &taken) || taken.near || time.Since(w.began) >= taken.session {
		return false, err
	}
	if !w.said {
		w.m.options.Report(fmt.Errorf("cluster: joining as %q: %w: it may be this machine's last one: its end is "+
			"waited for, %v at most", w.m.options.Name, err, taken.session))
		w.said = true
	}
	if cause := sleep(ctx, awaitLast); cause != nil {
		return false, fmt.Errorf("%w: %w", cause, err)
	}
	return true, nil
}

// awaitLast is the time between two looks whether a registration of somewhere else is still there.
const awaitLast = 200 * time.Millisecond

// errLastGone: another registration was there a moment ago.
var errLastGone = errors.New("another registration of the name was there, and has gone")

// takenError is about a name that another process has.
type takenError struct {
	found   Member
	near    bool          // on this machine: it is known to live
	session time.Duration // that one may last which nobody keeps: half as long again as this process's
}

// Error says who has it.
func (e *takenError) Error() string {
	return fmt.Sprintf("the name is taken by process %d on host %s since %v: choose another name, or end that one",
		e.found.Pid, e.found.Host, e.found.Since.Format(time.DateTime))
}

// lacks says what a member waits for that isn't up yet.
func (m *Membership) lacks() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var servers []string
	for _, s := range m.servers {
		if _, there := m.written[s.name]; !there {
			servers = append(servers, s.name)
		}
	}
	switch {
	case m.life == nil:
		return "it has lost its session since it was registered"
	case len(servers) > 0:
		return fmt.Sprintf("it is registered, and %d of its %d servers aren't in the store yet, %s among them",
			len(servers), len(m.servers), servers[0])
	}
	return "it is registered with all its servers, and the store hasn't answered yet that it is up"
}

// changedBefore tells whether a commit found something changed, or may have done so: what is there now is to be read.
func changedBefore(err error) bool {
	var changed *metastore.ConflictError
	return errors.As(err, &changed) || errors.Is(err, metastore.ErrUnknown)
}

// create makes the member's key, and begins a life; or it returns what a dead process has left there.
func (m *Membership) create(ctx context.Context) (left *metastore.Cond, err error) {
	member := m.Member()
	member.Status, member.Since, member.Incarnation = Joining, time.Now().UTC(), rand.Text()
	present.Store(member.Incarnation, m)
	key := dirMembers + "/" + member.Name
	session, at, err := m.store.PutEphemeral(ctx, key, member)
	var taken *metastore.ConflictError
	if err == nil {
		m.begin(member, at, session)
		return nil, nil
	} else if !errors.As(err, &taken) {
		return nil, err
	}
	return m.holder(ctx)
}

// holder says who has the name: left is what a process that is no more has left there. errLastGone: nobody has it.
func (m *Membership) holder(ctx context.Context) (left *metastore.Cond, err error) {
	key := dirMembers + "/" + m.options.Name
	found, at, err := m.read(ctx)
	switch {
	case err == nil && m.dead(&found), errors.Is(err, errUnreadable) && m.owns(at):
		return &metastore.Cond{Path: key, Is: metastore.At, Version: at.Version}, nil
	case errors.Is(err, errUnreadable):
		return nil, fmt.Errorf("somebody has written something else into the member's key: delete it "+
			"(`store rm %s`): %w", key, err)
	case err == nil:
		taken := &takenError{found: found, near: found.Origin != "" && found.Origin == m.Member().Origin}
		if session, err := m.store.Session(ctx); err == nil {
			taken.session = session.TTL() + session.TTL()/2
		}
		return nil, taken
	case errors.Is(err, metastore.ErrNoNode):
		return nil, errLastGone
	}
	return nil, err
}

// owns tells whether a key is of the session of this member's last life: it was written over, not left by another.
func (m *Membership) owns(at metastore.Value) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return at.Owner != 0 && at.Owner == m.owner
}

// begin starts a life.
func (m *Membership) begin(member Member, at metastore.Value, session metastore.Session) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case <-session.Lost():
		case <-m.store.Closed():
		case <-ctx.Done():
		case <-m.done:
		}
		cancel(errLifeOver)
	}()
	m.mu.Lock()
	m.member, m.version, m.owner, m.written = member, at.Version, at.Owner, map[string]State{}
	m.life = &life{ctx: ctx, cancel: cancel, session: session, incarnation: member.Incarnation}
	m.life.leading, m.life.leadNoMore = context.WithCancel(ctx)
	close(m.began)
	m.began = make(chan struct{})
	m.mu.Unlock()
}

// dead tells whether a registration is one of this process, of a life before, or of a process of this machine that
// is no more.
func (m *Membership) dead(found *Member) bool {
	mine := m.Member()
	if found.Origin == "" || found.Origin != mine.Origin {
		return false
	}
	if found.Pid == mine.Pid {
		owner, here := present.Load(found.Incarnation)
		return !here || owner == m
	}
	state := procfs.State(found.Pid)
	return state == "" || state == procfs.Dead
}

// origin names the system in which this process has its number: the boot, and the space of process numbers.
func origin() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

// read reads the member's own key. errUnreadable.
func (m *Membership) read(ctx context.Context) (found Member, at metastore.Value, err error) {
	if at, err = m.store.Get(ctx, dirMembers+"/"+m.options.Name); err != nil {
		return Member{}, at, err
	}
	found, err = read(at, func(found *Member) error { return found.check(m.options.Name) })
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return found, at, err
}

// compatible refuses a cluster of another format or version.
func (m *Membership) compatible(ctx context.Context) error {
	names, err := m.store.Members(ctx, dirMembers)
	if err != nil {
		return err
	}
	for _, name := range names {
		var other Member
		v, err := m.store.Get(ctx, dirMembers+"/"+name)
		if errors.Is(err, metastore.ErrNoNode) {
			continue
		}
		if err == nil && (v.Decode(&other) != nil || other.Layout == 0 ||
			other.Layout == Layout && other.check(name) != nil) {
			continue // no member's: its own trouble
		}
		switch {
		case err != nil:
			return err
		case other.Layout != Layout:
			return fmt.Errorf("the cluster's keys have format %d (%s), this program's have %d: use the same "+
				"version, or another group", other.Layout, name, Layout)
		case other.Version != m.options.Version && !m.options.MixedBuilds:
			return fmt.Errorf("member %s has version %s, this program is %s: use the same build on all machines, or "+
				"allow mixed builds", name, other.Version, m.options.Version)
		}
	}
	return nil
}

// Member returns the member as it is in the store, or is to be.
func (m *Membership) Member() Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.member
}
