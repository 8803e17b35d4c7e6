// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/metastore"
)

// askerEnv has, for a process of TestMain that asks a server of another member, what memberEnv has for a member.
const askerEnv = "DISCO_TEST_ASKER"

// loudly prints at which step a process dies.
type loudly struct{ mortal }

func (b *loudly) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	return b.step("commit", func() error { return b.Backend.Commit(ctx, conds, ops) })
}

func (b *loudly) Append(ctx context.Context, dir string, value []byte) (name string, err error) {
	err = b.step("append", func() error {
		name, err = b.Backend.Append(ctx, dir, value)
		return err
	})
	return name, err
}

func (b *loudly) step(what string, do func() error) error {
	n := b.n.Add(1)
	if n == -b.at {
		fmt.Println("dies before", what)
		die()
	}
	err := do()
	if n == b.at {
		fmt.Println("dies behind", what)
		die()
	}
	return err
}

// beAsker puts an item into a queue, and asks the server h0-0 for all states, one after the other.
func beAsker(args []string) error {
	ctx := context.Background()
	backend, err := dialers[args[0]](args[1], longLived)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	store, err := metastore.New(ctx, &loudly{mortal{Backend: backend, at: at}}, metastore.Options{Group: args[2],
		Base: Base()})
	if err != nil {
		return err
	}
	view, err := Open(ctx, store)
	if err != nil {
		return err
	}
	if _, err := store.Enqueue(ctx, "work", "item"); err != nil {
		return err
	}
	for _, s := range []State{Reserved, Ready, Active, Paused, Terminated} {
		if ack, err := view.Ask(ctx, "h0-0", s, &Assignment{"e", "1", 0}, "asker"); err != nil || ack.Phase != Applied {
			return fmt.Errorf("asked for %v: %+v, %w", s, ack, err)
		}
	}
	view.Close()
	return store.Close()
}

// TestAskerKilledAtEveryStep kills a process before and behind each of its commits and appends. An item that was
// appended is there once; a request that was made is answered, and the server can be used by the next who asks.
func TestAskerKilledAtEveryStep(t *testing.T) {
	onProcesses(t, func(t *testing.T, p *process) {
		p.life = longLived // nobody's session is to end but by its own doing
		killedAtEveryStep(t, 6, 1, func(t *testing.T, at int) bool { return setUpOn(t, p).killAsker(at) })
	})
}

// killAsker is one of them. It tells whether the process was killed.
func (f *fixture) killAsker(at int) bool {
	p := f.server.(*process)
	f.join("h0", 1)
	cmd := exec.CommandContext(f.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", askerEnv, p.name, p.addr, f.group, at))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	killed := strings.HasPrefix(string(out), "dies")
	if (err != nil) != killed {
		f.Fatalf("%v: %q", err, out)
	}
	names, err := f.store.Members(f.ctx, "work/items")
	if err != nil && !errors.Is(err, metastore.ErrNoNode) || len(names) > 1 ||
		len(names) == 0 && (!killed || string(out) == "dies behind append\n") ||
		len(names) == 1 && string(out) == "dies before append\n" {
		f.Errorf("%q: the queue has %v, %v", out, names, err)
	}
	if len(names) == 1 {
		item, err := f.store.Dequeue(f.ctx, "work")
		if err == nil {
			err = item.Consume(f.ctx, nil)
		}
		if err != nil {
			f.Error(err)
		}
	}
	v, err := f.store.Get(f.ctx, dirDesired+"/h0-0")
	if err == nil {
		var r Request
		if err := v.Decode(&r); err != nil {
			f.Fatal(err)
		}
		f.await("the request is answered", func() bool {
			s, _ := f.view.Server("h0-0")
			return s.Ack.final() && s.Ack.Request == r.ID
		})
	} else if !errors.Is(err, metastore.ErrNoNode) {
		f.Fatal(err)
	}
	if s, _ := f.view.Server("h0-0"); s.State != Available {
		f.ask("h0-0", Terminated, s.Info.Assignment)
	}
	f.await("it is free", func() bool { s, _ := f.view.Server("h0-0"); return s.State == Available })
	f.activate("h0-0", &Assignment{"e", "2", 1})
	f.equalsStore()
	return killed
}
