// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// elsewhere has a member of another system's, such as a container's, register as h1.
func elsewhere(f *fixture) (store *metastore.Store) {
	f.Helper()
	_, b := f.server.client(f.T)
	store = f.open(b)
	if _, _, err := store.PutEphemeral(f.ctx, dirMembers+"/h1", Member{Name: "h1", Status: Up, Layout: Layout,
		Version: "v1", Incarnation: "before", Pid: 1, Host: "box", Origin: "another", Slots: 1}); err != nil {
		f.Fatal(err)
	}
	return store
}

// TestLastLife: a member whose name is that of a process that can't be looked at, as of the container before, says
// whose it is, waits for the end of that session, and is refused only where it doesn't end.
func TestLastLife(t *testing.T) {
	for _, ends := range []bool{true, false} {
		f := setUpOn(t, memory{mem.NewServer(time.Second)})
		last := elsewhere(f)
		options, _ := f.options("h1", 1)
		var mu sync.Mutex
		said := ""
		options.Report = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if said += err.Error() + "\n"; ends {
				go last.Close()
			}
		}
		m, err := Join(f.ctx, f.store, options)
		mu.Lock()
		if want := `joining as "h1": the name is taken by process 1 on host box`; strings.Count(said, want) != 1 ||
			!strings.Contains(said, "its end is waited for, 1.5s at most") {
			t.Errorf("it says %q, want %q once", said, want)
		}
		mu.Unlock()
		switch {
		case ends && err != nil:
			t.Error(err)
		case ends:
			if err := m.Leave(f.ctx); err != nil {
				t.Error(err)
			}
		case err == nil || !strings.Contains(err.Error(), "is taken by process 1 on host box"):
			t.Errorf("found %v, want it refused", err)
		}
	}
}

// TestJoinTooLong: who can't join in time says what was lacking.
func TestJoinTooLong(t *testing.T) {
	f := setUpOn(t, memory{mem.NewServer(time.Hour)})
	elsewhere(f)
	options, _ := f.options("h1", 1)
	over := errors.New("the time is over")
	ctx, cancel := context.WithTimeoutCause(f.ctx, 300*time.Millisecond, over)
	defer cancel()
	if _, err := Join(ctx, f.store, options); !errors.Is(err, over) || !strings.Contains(err.Error(),
		"is taken by process 1") {
		t.Errorf("found %v", err)
	}
	blocked := make(chan struct{})
	free := sync.OnceFunc(func() { close(blocked) })
	defer free()
	store := f.around("h2-1", func(do func() error) error { <-blocked; return do() })
	options, _ = f.options("h2", 2)
	ctx, cancel = context.WithTimeoutCause(f.ctx, 300*time.Millisecond, over)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(10*time.Millisecond, free) })
	defer stop()
	if _, err := Join(ctx, store, options); !errors.Is(err, over) || !strings.Contains(err.Error(),
		"it is registered, and 1 of its 2 servers aren't in the store yet, h2-1 among them") {
		t.Errorf("found %v", err)
	}
}
