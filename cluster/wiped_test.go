// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// data is what may happen to a server's data while it doesn't run.
type data interface {
	Wipe() error
	Save() error
	Restore() error
}

// TestServerLosesItsData: a server comes back without its data, or with what it had some time ago, below programs
// that only look, and below a member. They are told that this is another store, and what runs goes on.
func TestServerLosesItsData(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"etcd", "zk"} {
		for how, restored := range map[string]bool{"wiped": false, "restored": true} {
			t.Run(engine+"/"+how, func(t *testing.T) {
				t.Parallel()
				losesData(t, startEngine(t, engine).(*process), restored)
			})
		}
	}
}

func losesData(t *testing.T, p *process, restored bool) {
	d := p.server.(data)
	f := setUpOn(t, p)
	m := f.join("h1", 1)
	f.activate("h1-0", &Assignment{"e", "1", 0})
	change := func(f func() error) {
		p.stop(t)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		p.start(t)
	}
	events := f.view.Subscribe()
	defer events.Close()
	if restored {
		change(d.Save)
		for i := range 20 {
			if err := f.store.Put(f.ctx, "later", i); err != nil {
				t.Fatal(err)
			}
		}
		m.leave(f)
		m = f.join("h2", 1)
		f.activate("h2-0", &Assignment{"e", "1", 0})
		change(d.Restore)
	} else {
		change(d.Wipe)
	}
	select {
	case <-f.store.Wrong():
	case <-f.ctx.Done():
		t.Fatal("a program that only looks isn't told")
	}
	if _, err := f.store.Get(f.ctx, "later"); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Errorf("found %v, want ErrWrongCluster", err)
	}
	if err := f.view.Await(f.ctx, func() bool { return false }); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Errorf("the view: found %v, want ErrWrongCluster", err)
	}
	for err := error(nil); !errors.Is(err, metastore.ErrWrongCluster); {
		if _, err = events.Next(f.ctx); f.ctx.Err() != nil {
			t.Fatalf("the events end with %v, want ErrWrongCluster", err)
		}
	}
	<-m.store.Wrong()
	for m.Ready() && f.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if got := m.workers[0].did(); got != "initialize activate" || m.Ready() {
		t.Errorf("the member: ready %v, its worker did %q", m.Ready(), got)
	}
	m.leave(f)
}

// leave leaves a store that may be another one.
func (m *member) leave(f *fixture) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	if err := m.Leave(ctx); err != nil && !errors.Is(err, metastore.ErrWrongCluster) || ctx.Err() != nil {
		f.Errorf("Leave: %v, %v", err, ctx.Err())
	}
}
