// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

var engineNames = []string{"etcd", "etcd3", "zk", "zk3"}

// ttl is that of all sessions.
const ttl = 10 * time.Second

// engine is a store that was started. Both clients use the one server at addr: with three it isn't the leader.
type engine struct {
	kind    string // etcd or zk
	servers int
	addr    string
	dir     string
	stop    func()
}

// startEngine starts servers whose files are in a new folder. Writes reach the disk before they are answered.
func startEngine(ctx context.Context, name string) (*engine, error) {
	dir, err := os.MkdirTemp("", "disco-store-")
	if err != nil {
		return nil, err
	}
	kind, three := strings.CutSuffix(name, "3")
	e := &engine{kind: kind, servers: 1, dir: dir, stop: func() {}}
	if three {
		e.servers = 3
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if kind == "etcd" {
		err = e.startEtcd(ctx)
	} else {
		err = e.startZK(ctx)
	}
	if err != nil {
		e.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

func (e *engine) startEtcd(ctx context.Context) error {
	z, err := storeserver.StartEtcds(ctx, e.dir, e.servers)
	if err != nil {
		return err
	}
	e.stop, e.addr = z.Close, z.Servers[0].Addr()
	for _, s := range z.Servers[1:] {
		leads, err := etcdLeads(ctx, s.Addr())
		if err != nil {
			return err
		}
		if !leads {
			e.addr = s.Addr()
		}
	}
	return nil
}

func (e *engine) startZK(ctx context.Context) error {
	z, err := storeserver.StartEnsemble(ctx, e.dir, e.servers,
		storeserver.ZKOptions{Tick: 500 * time.Millisecond, Sync: true})
	if err != nil {
		return err
	}
	e.stop, e.addr = z.Close, z.Servers[0].Addr()
	for _, s := range z.Servers {
		if s.Mode() == "follower" {
			e.addr = s.Addr()
		}
	}
	return nil
}

// close ends the servers and deletes their files.
func (e *engine) close() {
	e.stop()
	if err := os.RemoveAll(e.dir); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
	}
}

// fenced tells whether reads need something before them to be linearizable, or nearly so.
func (e *engine) fenced() bool { return e.kind == "zk" && e.servers > 1 }

// backend is our client at an address.
func (e *engine) backend(ctx context.Context, addr string, syncReads bool) (metastore.Backend, error) {
	if e.kind == "etcd" {
		return etcd.New(ctx, etcd.Options{Endpoints: []string{addr}, TTL: ttl})
	}
	return zk.New(zk.Options{Servers: []string{addr}, TTL: ttl, SyncReads: syncReads})
}

// group is where all keys of stores are; those of bare clients are beside it, with paths of the same length.
const group = "perf"

// open is a store at an address.
func (e *engine) open(ctx context.Context, addr string, base ...string) (*metastore.Store, error) {
	return e.openWith(ctx, addr, false, base...)
}

func (e *engine) openWith(ctx context.Context, addr string, syncReads bool, base ...string) (*metastore.Store, error) {
	b, err := e.backend(ctx, addr, syncReads)
	if err != nil {
		return nil, err
	}
	return metastore.New(ctx, b, metastore.Options{Group: group, Base: base})
}

// bare is the engine's usual client at an address.
func (e *engine) bare(ctx context.Context, addr string) (bare, error) {
	if e.kind == "etcd" {
		return newBareEtcd(addr)
	}
	return newBareZK(ctx, addr, e.fenced())
}

// two is a store and a bare client of one server.
func (e *engine) two(ctx context.Context, base ...string) (*metastore.Store, bare, func(), error) {
	s, err := e.open(ctx, e.addr, base...)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := e.bare(ctx, e.addr)
	if err != nil {
		_ = s.Close()
		return nil, nil, nil, err
	}
	return s, b, func() { _ = s.Close(); b.close() }, nil
}
