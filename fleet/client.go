// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Client reads and writes the fleet's keys: for people, for agents and for the leader. Every write is one commit: all
// of it is there afterwards, or nothing. Any goroutine may use it.
type Client struct {
	store *metastore.Store
	o     Options
	user  string // to whom the store binds what is submitted and noted; "" where it doesn't know who this is
}

// Options are how a client is used; the zero value is fine.
type Options struct {
	By   string           // who acts, for others to ask; where the store knows who it is, that user acts
	From string           // where from, for the audit: a command, or an agent's name
	Now  func() time.Time // for people, and the beginning of ids; time.Now if nil
	// History is how many entries the audit keeps; 10,000 if 0.
	History int
	// Experiments is how many a group may have, those that have ended included; MaxExperiments if 0.
	Experiments int
}

// historyDefault is how many entries the audit keeps.
const historyDefault = 10_000

// New makes a client of a group's store, which should have been opened with Base. It refuses a group whose fleet has
// another layout. The store stays its caller's.
func New(ctx context.Context, store *metastore.Store, o Options) (*Client, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.History = cmp.Or(o.History, historyDefault)
	o.Experiments = cmp.Or(o.Experiments, MaxExperiments)
	c := &Client{store: store, o: o, user: storeUser(store)}
	if c.user != "" && c.user != o.By {
		c.o.From = strings.TrimSuffix(o.From+" by "+o.By, " by ")
		c.o.By = c.user
	}
	if err := c.checkFormat(ctx); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return c, nil
}

// checkFormat refuses another layout. A group in which nothing was submitted has none.
func (c *Client) checkFormat(ctx context.Context) error {
	_, err := c.readFormat(ctx)
	return err
}

// readFormat refuses another layout, and tells whether there is one.
func (c *Client) readFormat(ctx context.Context) (there bool, err error) {
	layout := Layout
	version, err := c.get(ctx, keyFormat, &layout)
	if err == nil && layout != Layout {
		err = fmt.Errorf("the group's experiments have layout %d, this program writes %d: take a program of the same "+
			"version as the others, or another group", layout, Layout)
	}
	return version != metastore.Version{}, err
}

// makeFormat writes the layout where there is none.
func (c *Client) makeFormat(ctx context.Context) error {
	for {
		if there, err := c.readFormat(ctx); there || err != nil { // not everybody may write it
			return err
		}
		op, err := c.op(metastore.Create, keyFormat, Layout)
		if err != nil {
			return err
		}
		err = c.store.Commit(ctx, nil, []metastore.Op{op})
		if errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil {
			continue
		}
		if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) {
			return c.checkFormat(ctx)
		}
		return err
	}
}

// get reads a value; its version is zero where there is none.
func (c *Client) get(ctx context.Context, key string, into any) (metastore.Version, error) {
	v, err := c.store.Get(ctx, key)
	if errors.Is(err, metastore.ErrNoNode) || err == nil && !v.HasValue() {
		return metastore.Version{}, nil
	}
	if err != nil {
		return metastore.Version{}, err
	}
	if err := v.Decode(into); err != nil {
		return v.Version, &MalformedError{key, err}
	}
	return v.Version, nil
}

// MalformedError says which key's value can't be read, and why.
type MalformedError struct {
	Key string
	Err error
}

// Error names the key.
func (e *MalformedError) Error() string { return fmt.Sprintf("%s can't be read: %v", e.Key, e.Err) }

// Unwrap is why.
func (e *MalformedError) Unwrap() error { return e.Err }

// op is an operation that writes a value.
func (c *Client) op(do metastore.OpKind, key string, value any) (metastore.Op, error) {
	raw, err := c.store.Encode(value)
	return metastore.Op{Path: key, Do: do, Value: raw}, err
}

// wake is the operation that has the leader look: at an experiment, or at reports alone where that is "".
func (c *Client) wake(id string) (metastore.Op, error) {
	return c.op(metastore.Set, keyChanged, id+" "+rand.Text())
}

// FollowChanges calls f, at first too, whenever somebody has written what the leader is to see, until f returns false
// or the watch is stopped. Of several changes in a row some may be one call. value is what they have written: the
// experiment's id, a space and something random; "" where nothing is there, or it can't be read.
func (c *Client) FollowChanges(f func(value string) (keep bool)) (*metastore.Watch, error) {
	return c.store.Follow(keyChanged, func(v metastore.Value, _ string) bool {
		text := ""
		if v.HasValue() && v.Decode(&text) != nil {
			text = ""
		}
		return f(text)
	})
}

// at is the condition that a key is as it was read; the zero version says that it held nothing.
func at(key string, v metastore.Version) metastore.Cond {
	if v == (metastore.Version{}) {
		return metastore.Cond{Path: key, Is: metastore.Missing}
	}
	return metastore.Cond{Path: key, Is: metastore.At, Version: v}
}

// exists is the condition that an experiment is there.
func exists(id string) metastore.Cond { return metastore.Cond{Path: specKey(id), Is: metastore.Exists} }

// ErrGone is the error about an experiment that isn't there any more, or never was.
var ErrGone = errors.New("there is no such experiment any more")

// gone makes ErrGone of the conflict of exists.
func gone(id string, err error) error {
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && conflict.Cond == exists(id) {
		return fmt.Errorf("%s: %w", id, ErrGone)
	}
	return err
}
