// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/disco-sim/disco/metastore"
)

// Layout is the number of the layout of the cluster's keys. Members with another one are refused.
const Layout = 1

// The directories.
const (
	dirMembers = "cluster/members"
	dirServers = "cluster/servers"
	dirInfo    = "cluster/info"
	dirDesired = "cluster/desired"
	dirDrained = "cluster/drained"
	dirDead    = "cluster/dead"
	keyLeader  = "cluster/leader"
)

// Base are the directories that the cluster needs, for metastore.Options.
func Base() []string {
	return []string{dirMembers, dirServers, dirInfo, dirDesired, dirDrained, dirDead, keyLeader}
}

// View is what a program knows of its cluster: the store's keys as its watches saw them last. While the store can't
// be reached it stays as it was. Its methods may be called by any goroutine; what they return is the caller's.
type View struct {
	store *metastore.Store

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	asking sync.WaitGroup // calls of confirm

	mu          sync.Mutex
	changed     chan struct{} // closed with each change, and made anew
	changes     uint64
	members     map[string]*memberView
	servers     map[string]*serverView
	watches     map[string]*metastore.Watch // by key
	listed      map[string]bool             // directories whose names were read
	drained     []string                    // members and servers, sorted
	unreachable map[string]bool
	book        *AddressBook // nil: to be made
	subscribers map[*Subscription]bool
	closed      bool
}

// memberView is what the view has read of one member.
type memberView struct {
	Member
	read bool // Member, or what is wrong with it
	err  error
}

// serverView is what the view has read of one server. Its two values are written together and read apart: what
// others see changes when both are of one writing.
type serverView struct {
	status             Status
	info               Info
	hasStatus, hasInfo bool // were read, or what is wrong with them
	missing            bool // there is no info
	torn               bool // they are of two writings, and whether they stay so is being found out
	statusErr, infoErr error
	shown              *Server // nil: nothing yet
}

// show takes over what was read, if it fits together, and tells whether it does. A server of which a value can't be
// understood is Broken.
func (s *serverView) show(name string) bool {
	if !s.hasStatus || !s.hasInfo {
		return true
	}
	now := &Server{Name: name, Status: s.status, Info: s.info}
	if err := errors.Join(s.statusErr, s.infoErr); err != nil {
		now.State, now.Reason = Broken, strings.ReplaceAll(err.Error(), "\n", "; ")
	} else if s.status.Writing != s.info.Writing {
		return false
	}
	s.shown = now
	return true
}

// Open makes a view, and returns when it has read what was there at the call.
func Open(ctx context.Context, store *metastore.Store) (*View, error) {
	v := &View{store: store, changed: make(chan struct{}), members: map[string]*memberView{},
		servers: map[string]*serverView{}, watches: map[string]*metastore.Watch{}, listed: map[string]bool{},
		unreachable: map[string]bool{}, subscribers: map[*Subscription]bool{}}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	for _, key := range Base() {
		if err := store.Ensure(ctx, key); err != nil {
			v.Close()
			return nil, fmt.Errorf("cluster: %w", err)
		}
	}
	for _, dir := range []string{dirDrained, dirMembers, dirServers} {
		w, err := store.WatchMembers(ctx, dir, v.names)
		if err != nil {
			v.Close()
			return nil, fmt.Errorf("cluster: %w", err)
		}
		v.keep(dir, w)
	}
	if err := v.await(ctx, v.complete); err != nil {
		v.Close()
		return nil, fmt.Errorf("cluster: reading who is there: %w", err)
	}
	return v, nil
}

// keep remembers a watch, to be stopped; at once if the view is closed.
func (v *View) keep(key string, w *metastore.Watch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		w.Stop()
	}
	v.watches[key] = w
}

// complete tells whether both lists of names, and a value for each name, have been read.
func (v *View) complete() bool {
	if !v.listed[dirMembers] || !v.listed[dirServers] || !v.listed[dirDrained] {
		return false
	}
	for _, m := range v.members {
		if !m.read {
			return false
		}
	}
	for _, s := range v.servers {
		if s.shown == nil {
			return false
		}
	}
	return true
}

// Close ends the view and its subscriptions.
func (v *View) Close() {
	v.mu.Lock()
	v.closed = true
	watches := slices.Collect(maps.Values(v.watches))
	for s := range v.subscribers {
		s.wake()
	}
	v.touch()
	v.mu.Unlock()
	v.cancel()
	for _, w := range watches {
		if w != nil {
			w.Stop()
		}
	}
	v.asking.Wait()
}

// touch says that something has changed. The lock is held.
func (v *View) touch() {
	v.changes++
	v.book = nil
	close(v.changed)
	v.changed = make(chan struct{})
}

// names is the watch of a directory: it follows new names and forgets those that went.
func (v *View) names(names []string, dir string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.listed[dir] = true
	switch dir {
	case dirDrained:
		v.drained = names
	case dirMembers:
		v.sync(names, slices.Collect(maps.Keys(v.members)), v.addMember, v.memberGone)
	default:
		v.sync(names, slices.Collect(maps.Keys(v.servers)), v.addServer, v.serverGone)
	}
	v.touch()
	return true
}

// sync calls add and gone for what is new in a list of names, and for what isn't in it any more.
func (v *View) sync(now, before []string, add, gone func(name string)) {
	slices.Sort(before)
	for _, name := range before {
		if _, here := slices.BinarySearch(now, name); !here {
			gone(name)
		}
	}
	for _, name := range now {
		if _, known := slices.BinarySearch(before, name); !known {
			add(name)
		}
	}
}

func (v *View) addMember(name string) {
	m := &memberView{}
	v.members[name] = m
	unread := func(err error) {
		if !m.read {
			m.read, m.err = true, err
		}
	}
	err := v.follow(dirMembers+"/"+name, func(val metastore.Value) {
		if val.Exists() {
			v.readMember(name, val)
		} else if !m.read { // the list of names will say so, too, unless there is something below
			v.asking.Go(func() { v.confirmKey(dirMembers+"/"+name, unread) })
		}
	})
	if err != nil {
		unread(err)
	}
}

func (v *View) addServer(name string) {
	s := &serverView{}
	v.servers[name] = s
	unread := func(err error) {
		if !s.hasStatus {
			s.statusErr, s.hasStatus = err, true
			v.show(name, s)
		}
	}
	err := v.follow(dirServers+"/"+name, func(val metastore.Value) {
		if val.Exists() {
			s.status, s.statusErr = read[Status](val, (*Status).check)
			s.hasStatus = true
			if s.missing { // the info that belongs to this status is on its way, or missing, too
				s.infoErr, s.hasInfo, s.missing = nil, false, false
				v.asking.Go(func() { v.confirm(name, s) })
			}
			v.show(name, s)
		} else if !s.hasStatus {
			v.asking.Go(func() { v.confirmKey(dirServers+"/"+name, unread) })
		}
	})
	if err != nil {
		s.hasInfo = true
		unread(err)
		return
	}
	_ = v.follow(dirInfo+"/"+name, func(val metastore.Value) {
		if val.Exists() {
			s.info, s.infoErr = read[Info](val, (*Info).check)
			s.hasInfo, s.missing = true, false
			v.show(name, s)
		} else if !s.hasInfo { // where it was there before, the server is leaving
			v.asking.Go(func() { v.confirm(name, s) })
		}
	})
}

// confirmKey calls unread, with the lock held, if a name that is listed is that of a key which holds nothing, but has
// something below it.
func (v *View) confirmKey(key string, unread func(error)) {
	val, err := v.store.Get(v.ctx, key)
	if err != nil || val.HasValue() {
		return // the watches have it, or will have it
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		unread(fmt.Errorf("key %q: %w", key, metastore.ErrNoValue))
		v.touch()
	}
}

// confirm makes a server Broken that has a status and no info. Both are made in one commit, so that a read behind
// that of the status finds the info, unless somebody has deleted it.
func (v *View) confirm(name string, s *serverView) {
	for again := true; again; {
		var seen Status
		if v.await(v.ctx, func() bool {
			seen = s.status
			return s.hasStatus || s.hasInfo || v.servers[name] != s
		}) != nil {
			return
		}
		val, err := v.store.Get(v.ctx, dirInfo+"/"+name)
		if err == nil && !val.HasValue() {
			err = metastore.ErrNoNode // there is something below it
		}
		again = v.judge(name, s, seen, err)
	}
}

// judge takes in what reading a server's info gave, for the status that was seen before; it tells whether that is
// to be done again, because there is another status by now.
func (v *View) judge(name string, s *serverView, seen Status, err error) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || s.hasInfo || v.servers[name] != s || !errors.Is(err, metastore.ErrNoNode) {
		return false // the watch has it, or will have it
	}
	if seen.Incarnation != s.status.Incarnation || seen.Writing != s.status.Writing {
		return true
	}
	s.infoErr, s.hasInfo, s.missing = fmt.Errorf("there is no %s/%s", dirInfo, name), true, true
	v.show(name, s)
	v.touch()
	return false
}

func (v *View) serverGone(name string) {
	v.forget(dirServers + "/" + name)
	v.forget(dirInfo + "/" + name)
	delete(v.servers, name)
}

// read decodes and checks a value.
func read[T any](val metastore.Value, check func(*T) error) (x T, err error) {
	if err = val.Decode(&x); err == nil {
		err = check(&x)
	}
	return x, err
}

// follow calls f, with the lock held, with what a key holds, and again when it has changed, until forget. It fails
// where the key is refused: the name came from the store, where others wrote it.
func (v *View) follow(key string, f func(metastore.Value)) error {
	var w *metastore.Watch
	w, err := v.store.Follow(key, func(val metastore.Value, key string) bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.closed || v.watches[key] != w {
			return false // it was forgotten; there may be a later one of the same key
		}
		f(val)
		v.touch()
		return true
	})
	if err == nil {
		v.watches[key] = w
	}
	return err
}

// forget ends what follow began.
func (v *View) forget(key string) {
	if w := v.watches[key]; w != nil {
		w.Stop()
	}
	delete(v.watches, key)
}

// await waits until done, which is called with the lock held, after each change.
func (v *View) await(ctx context.Context, done func() bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for {
		changed := v.changed // before done, which may let go of the lock
		if v.closed || done() {
			break
		}
		v.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-v.store.Closed():
			v.mu.Lock()
			return fmt.Errorf("cluster: the view stands still: %w", metastore.ErrClosed)
		case <-v.store.Wrong():
			v.mu.Lock()
			return fmt.Errorf("cluster: what the view has isn't the store's any more: %w", metastore.ErrWrongCluster)
		}
		v.mu.Lock()
		if err := context.Cause(ctx); err != nil && !done() {
			return err
		}
	}
	if v.closed {
		return metastore.ErrClosed
	}
	return nil
}

// Await waits until done is true of the view, which it asks after each change; done may use the view. It fails when
// ctx ends, with ErrClosed after Close of the view or the store, and with ErrWrongCluster when the store isn't the one
// any more that it was: the view stands still then, and nobody should go by it.
func (v *View) Await(ctx context.Context, done func() bool) error {
	return v.await(ctx, func() bool {
		v.mu.Unlock()
		defer v.mu.Lock()
		return done()
	})
}

// Servers returns all servers, by name. One of which a value can't be read is Broken, with the reason.
func (v *View) Servers() []Server {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []Server
	for _, name := range slices.Sorted(maps.Keys(v.servers)) {
		if s := v.servers[name].shown; s != nil {
			all = append(all, *s)
		}
	}
	return all
}

// Server returns one server.
func (v *View) Server(name string) (Server, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.servers[name]
	if s == nil || s.shown == nil {
		return Server{}, false
	}
	return *s.shown, true
}

// Available returns the servers that may be given a partition of an experiment, the best first: those that still
// have one of it loaded, by partition, each partition once; then all others, by name. parts are the partitions of
// the first group. Only servers that are Available count, that aren't drained, and whose member is up and isn't
// drained. All views of one state give the same.
func (v *View) Available(experiment string) (servers []string, parts []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	free := map[string]Server{}
	for name, s := range v.public() {
		if m := v.members[s.Info.Member]; m != nil && m.Status == Up && !v.isDrained(name) && !v.isDrained(m.Name) {
			free[name] = s
		}
	}
	return available(free, experiment)
}

// isDrained tells whether a member or server is drained itself. The lock is held.
func (v *View) isDrained(name string) bool {
	_, found := slices.BinarySearch(v.drained, name)
	return found
}

// Drained returns the members and servers on which nothing new is placed, by name, also those that aren't there now.
func (v *View) Drained() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.drained)
}

// public returns all servers that were read. The lock is held.
func (v *View) public() map[string]Server {
	servers := make(map[string]Server, len(v.servers))
	for name, s := range v.servers {
		if s.shown != nil {
			servers[name] = *s.shown
		}
	}
	return servers
}

// AwaitAvailable waits until the view has changed since the change that it returned at the last call; the first
// call is given 0, and returns at once. No change between two calls is missed. It fails as Await does.
func (v *View) AwaitAvailable(ctx context.Context, since uint64) (change uint64, err error) {
	err = v.await(ctx, func() bool { change = v.changes; return change != since })
	return change, err
}

// AddressBook returns the present book. The same one is returned until something changes.
func (v *View) AddressBook() *AddressBook {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.book == nil {
		v.book = newAddressBook(v.public())
	}
	return v.book
}

// Reach tells how a server is reached from another. Members share memory where they say the same of the boot of their
// machine and its process numbers ([Member.Origin]): two machines may have one name.
func (v *View) Reach(from, to string) Reach {
	v.mu.Lock()
	defer v.mu.Unlock()
	machine := func(name string) string {
		if s := v.servers[name]; s != nil && s.shown != nil {
			if m := v.members[s.shown.Info.Member]; m != nil {
				return m.Origin
			}
		}
		return ""
	}
	switch a, b := machine(from), machine(to); {
	case from == to:
		return SameProcess
	case a != "" && a == b:
		return SharedMemory
	}
	return Remote
}
