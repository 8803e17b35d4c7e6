// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// The directories of the cluster's keys (docs/cluster.md).
const (
	dirMembers = "cluster/members"
	dirServers = "cluster/servers"
	dirInfo    = "cluster/info"
)

// perMember is how many servers each member of the rows has.
const perMember = 10

func serverName(i int) string { return fmt.Sprintf("h%03d-%d", i/perMember, i%perMember) }

func memberKey(i int) string { return fmt.Sprintf("%s/h%03d", dirMembers, i/perMember) }

// states are the values of a server's two keys, in a writing.
func states(s *metastore.Store, i int, state cluster.State, writing uint64) (status, info []byte, err error) {
	a := &cluster.Assignment{Experiment: "exp", Replication: "1", Partition: i}
	status, err = s.Encode(cluster.Status{State: state, Incarnation: "IVXK7QAPLM3BJ2V5XK7QAPLM3B", Writing: writing})
	if err != nil {
		return nil, nil, err
	}
	info, err = s.Encode(cluster.Info{Member: fmt.Sprintf("h%03d", i/perMember), Slot: i % perMember, Assignment: a,
		Nodes: []string{fmt.Sprint("node-", i)}, Application: "shop", Numa: -1, Writing: writing})
	return status, info, err
}

// register makes the keys of n servers and their members, as members would: ephemeral, a member and its servers in one
// commit.
func register(ctx context.Context, s *metastore.Store, from, to int) error {
	session, err := s.Session(ctx)
	if err != nil {
		return err
	}
	var ops []metastore.Op
	create := func(key string, raw []byte) {
		ops = append(ops, metastore.Op{Path: key, Do: metastore.Create, Value: raw, Session: session})
	}
	for i := from; i < to; i++ {
		if i == from || i%perMember == 0 {
			name := fmt.Sprintf("h%03d", i/perMember)
			raw, err := s.Encode(cluster.Member{Name: name, Status: cluster.Up, Layout: cluster.Layout, Version: "v1",
				Incarnation: "IVXK7QAPLM3BJ2V5XK7QAPLM3B", Host: name, Slots: perMember})
			if err != nil {
				return err
			}
			create(memberKey(i), raw)
		}
		status, info, err := states(s, i, cluster.Available, 1)
		if err != nil {
			return err
		}
		create(dirServers+"/"+serverName(i), status)
		create(dirInfo+"/"+serverName(i), info)
		if i%perMember == perMember-1 || i == to-1 {
			if err := s.Commit(ctx, nil, ops); err != nil {
				return err
			}
			ops = nil
		}
	}
	return nil
}

// openView is how long a program takes to know its cluster, beside reading the same keys once.
func openView(ctx context.Context, e *engine, o options) (measure, func(), error) {
	members, err := e.open(ctx, e.addr, cluster.Base()...)
	if err != nil {
		return nil, nil, err
	}
	if err := register(ctx, members, 0, o.servers); err != nil {
		return nil, nil, errors.Join(err, members.Close())
	}
	s, b, end, err := e.two(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, members.Close())
	}
	ours := func() error {
		v, err := cluster.Open(ctx, s)
		if err != nil {
			return err
		}
		defer v.Close()
		if n := len(v.Servers()); n != o.servers {
			return fmt.Errorf("the view has %d servers, want %d", n, o.servers)
		}
		return nil
	}
	bares := func() error {
		root := "/" + group + "/"
		keys, err := b.tree(ctx, root+dirMembers, root+dirServers, root+dirInfo)
		if err == nil && keys < 2*o.servers {
			err = fmt.Errorf("read %d keys, want %d and more", keys, 2*o.servers)
		}
		return err
	}
	return func(_ context.Context, oursFirst bool) ([]figure, error) {
		took, err := timed(oursFirst, ours, bares)
		return []figure{{"view", "ms", took[0], took[1]}}, err
	}, func() { end(); _ = members.Close() }, nil
}

// timed measures two sides once, ms.
func timed(oursFirst bool, sides ...func() error) (took [2]float64, err error) {
	for k := range 2 {
		if !oursFirst {
			k = 1 - k
		}
		began := time.Now()
		if err := sides[k](); err != nil {
			return took, err
		}
		took[k] = time.Since(began).Seconds() * 1e3
		time.Sleep(50 * time.Millisecond) // what ends in the background
	}
	return took, nil
}

// The row of updates: so many workers, each of which says so often what state it is in.
const (
	workers       = 64
	workerUpdates = 6
)

// openUpdates is how long the commits of workers take that change state, with all on one session and with eight each,
// and until another program's view has the last of all.
func openUpdates(ctx context.Context, e *engine, _ options) (measure, func(), error) {
	watching, b, end, err := e.two(ctx, cluster.Base()...)
	if err != nil {
		return nil, nil, err
	}
	u := &updates{bare: b, watching: watching, writing: 1}
	closeAll := func() {
		for _, s := range u.stores {
			_ = s.Close()
		}
		end()
	}
	for range 8 {
		s, err := e.open(ctx, e.addr)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		u.stores = append(u.stores, s)
	}
	if err = register(ctx, watching, 0, workers); err == nil {
		err = u.prepare(ctx)
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return func(ctx context.Context, oursFirst bool) (all []figure, err error) {
		for _, sessions := range []int{1, 8} {
			took, err := timed(oursFirst, func() error { return u.ours(ctx, sessions) },
				func() error { return u.bares(ctx) })
			if err != nil {
				return nil, err
			}
			all = append(all, figure{"updates" + suffix(sessions), "ms", took[0], took[1]})
		}
		seen, err := u.seen(ctx)
		return append(all, figure{"updates-seen", "ms", seen, 0}), err
	}, closeAll, nil
}

// updates is what the row's rounds need.
type updates struct {
	watching *metastore.Store
	stores   []*metastore.Store
	guards   []metastore.Cond // by server: its member is there as it was
	bare     bare
	writing  uint64
}

func bareUpdateKeys(i int) (guard, x, y string) {
	return "/" + group + "/bare/members/h000", fmt.Sprintf("/%s/bare/servers/%s", group, serverName(i)),
		fmt.Sprintf("/%s/bare/info/%s", group, serverName(i))
}

// prepare makes the bare client's keys, and reads the members.
func (u *updates) prepare(ctx context.Context) error {
	for i := range workers {
		member, err := u.watching.Get(ctx, memberKey(i))
		if err != nil {
			return err
		}
		u.guards = append(u.guards, metastore.Cond{Path: memberKey(i), Is: metastore.At, Version: member.Version})
		guard, x, y := bareUpdateKeys(i)
		for _, key := range []string{guard, x, y} {
			if err := u.bare.put(ctx, key, []byte(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ours lets all workers write, on some of the sessions.
func (u *updates) ours(ctx context.Context, sessions int) error {
	first := u.writing
	u.writing += workerUpdates
	return together(workers, func(i int) error { return u.worker(ctx, u.stores[i%sessions], i, first) })
}

func (u *updates) bares(ctx context.Context) error {
	return together(workers, func(i int) error {
		guard, x, y := bareUpdateKeys(i)
		for range workerUpdates {
			if err := u.bare.update(ctx, guard, x, y, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// seen is how long it takes, from the first write on, until a view has the last one of each worker, ms.
func (u *updates) seen(ctx context.Context) (float64, error) {
	v, err := cluster.Open(ctx, u.watching)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	began := time.Now()
	if err := u.ours(ctx, len(u.stores)); err != nil {
		return 0, err
	}
	err = v.Await(ctx, func() bool {
		for _, s := range v.Servers() {
			if s.Writing != u.writing {
				return false
			}
		}
		return true
	})
	return time.Since(began).Seconds() * 1e3, err
}

// worker writes a server's states one after the other, as a member does: status and info in one commit, which holds
// only while the member's key is there as it was.
func (u *updates) worker(ctx context.Context, s *metastore.Store, i int, writing uint64) error {
	for n := range uint64(workerUpdates) {
		status, info, err := states(s, i, cluster.Reserved+cluster.State(n)%5, writing+n+1)
		if err != nil {
			return err
		}
		err = s.Commit(ctx, u.guards[i:i+1], []metastore.Op{
			{Path: dirServers + "/" + serverName(i), Do: metastore.Set, Value: status},
			{Path: dirInfo + "/" + serverName(i), Do: metastore.Set, Value: info}})
		if err != nil {
			return err
		}
	}
	return nil
}
