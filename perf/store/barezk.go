// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// bareZK is the client that Go programs use for ZooKeeper. It knows no contexts: its calls end when it is closed.
type bareZK struct {
	c    *zk.Conn
	sync bool // one before each read
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func newBareZK(ctx context.Context, addr string, sync bool) (*bareZK, error) {
	c, events, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &bareZK{c: c, sync: sync}, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, context.Cause(ctx)
		}
	}
}

func (b *bareZK) close() { b.c.Close() }

var world = zk.WorldACL(zk.PermAll)

// put makes a key and those above it when it isn't there.
func (b *bareZK) put(_ context.Context, key string, value []byte) error {
	_, err := b.c.Set(key, value, -1)
	for errors.Is(err, zk.ErrNoNode) {
		if err = b.parents(key); err == nil {
			_, err = b.c.Create(key, value, 0, world)
		}
	}
	return err
}

func (b *bareZK) keepPut(ctx context.Context, key string, value []byte) error {
	return b.put(ctx, key, value)
}

func (b *bareZK) parents(key string) error {
	dir := path.Dir(key)
	if dir == "/" {
		return nil
	}
	_, err := b.c.Create(dir, []byte("d"), 0, world)
	if errors.Is(err, zk.ErrNoNode) {
		if err = b.parents(dir); err == nil {
			_, err = b.c.Create(dir, []byte("d"), 0, world)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (b *bareZK) get(_ context.Context, key string) error {
	if b.sync {
		if _, err := b.c.Sync("/"); err != nil {
			return err
		}
	}
	_, _, err := b.c.Get(key)
	return err
}

func (b *bareZK) fencedGet(_ context.Context, key string) error {
	if _, err := b.c.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err != nil {
		return err
	}
	_, _, err := b.c.Get(key)
	return err
}

func (b *bareZK) watch(ctx context.Context, key string, ready func(), changed func([]byte)) error {
	for first := true; ; first = false {
		value, _, event, err := b.c.GetW(key)
		if err != nil {
			return err
		}
		if first {
			ready()
		} else {
			changed(value)
		}
		select {
		case <-event:
		case <-ctx.Done():
			return nil
		}
	}
}

// tree reads 128 keys at once.
func (b *bareZK) tree(_ context.Context, dirs ...string) (keys int, err error) {
	var all []string
	for _, dir := range dirs {
		names, _, err := b.c.Children(dir)
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			all = append(all, dir+"/"+name)
		}
	}
	for part := range slices.Chunk(all, 128) {
		errs := make([]error, len(part))
		var group sync.WaitGroup
		for i, key := range part {
			group.Go(func() { _, _, errs[i] = b.c.Get(key) })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

func (b *bareZK) update(_ context.Context, guard, x, y string, value []byte) error {
	_, err := b.c.Multi(&zk.CheckVersionRequest{Path: guard, Version: -1},
		&zk.SetDataRequest{Path: x, Data: value, Version: -1}, &zk.SetDataRequest{Path: y, Data: value, Version: -1})
	return err
}

func (b *bareZK) create(_ context.Context, key string) error {
	if err := b.parents(key); err != nil {
		return err
	}
	_, err := b.c.Create(key, []byte("record"), zk.FlagEphemeral, world)
	return err
}

func (b *bareZK) remove(_ context.Context, key string) error { return b.c.Delete(key, -1) }

func (b *bareZK) gone(ctx context.Context, key string, watching func()) error {
	there, _, event, err := b.c.ExistsW(key)
	if err != nil {
		return err
	}
	watching()
	if !there {
		return nil
	}
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *bareZK) enqueue(_ context.Context, dir string, value []byte) error {
	_, err := b.c.Create(dir+"/n", value, zk.FlagSequence, world)
	for errors.Is(err, zk.ErrNoNode) {
		if err = b.parents(dir + "/n"); err == nil {
			_, err = b.c.Create(dir+"/n", value, zk.FlagSequence, world)
		}
	}
	return err
}

func (b *bareZK) take(_ context.Context, dir string) (bool, error) {
	for {
		names, _, err := b.c.Children(dir)
		if err != nil || len(names) == 0 {
			return false, err
		}
		slices.Sort(names)
		for _, name := range names {
			if _, _, err = b.c.Get(dir + "/" + name); err == nil {
				err = b.c.Delete(dir+"/"+name, -1)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return err == nil, err
			}
		}
	}
}
