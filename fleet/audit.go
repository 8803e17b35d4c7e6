// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Deed is what somebody has done, in the audit. It is written in the commit that does it.
type Deed struct {
	// User is By where the entry lies below that user's name. Known tells that it was asked who that is, since somebody
	// has given roles: then nobody else can have written it, but for the store's administrator.
	User  string    `json:"-"`
	Known bool      `json:"-"`
	At    time.Time `json:"at"` // by the clock of who acts
	By    string    `json:"by"`
	From  string    `json:"from,omitempty"`
	What  string    `json:"what"`
	ID    string    `json:"experiment,omitempty"`
	Why   string    `json:"why,omitempty"`
}

func (e *Deed) check() error {
	return errors.Join(text("by", e.By, maxName), text("from", e.From, maxName), filled("what", e.What, maxName),
		text("experiment", e.ID, maxName), text("why", e.Why, MaxReason))
}

// newID makes an id that nobody else makes, without asking anybody. Those of a user sort by time as far as clocks
// agree.
func (c *Client) newID(now time.Time) string {
	if c.user != "" {
		return c.user + ownerEnd + idAt(now, idTime)
	}
	return idAt(now, idTime)
}

func idAt(now time.Time, format string) string {
	return now.UTC().Format(format) + "-" + strings.ToLower(rand.Text()[:idRandom])
}

// IsID tells whether a text is one that newID makes.
func IsID(id string) bool {
	if owner := Owner(id); owner != "" {
		id = id[len(owner)+len(ownerEnd):]
	}
	at := len(id) - idRandom - 1
	if at < 0 || id[at] != '-' || strings.Trim(id[at+1:], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return false
	}
	_, err := time.Parse(idTime, id[:at])
	return err == nil
}

// An id is a time and so many random letters and digits.
const (
	idTime    = "060102-150405"
	deedTime  = "060102-150405.000000" // the oldest are removed by their names
	idRandom  = 6
	idExample = "261128-125213-7f3k2m"
)

// noted is the operation that appends to the audit.
func (c *Client) noted(now time.Time, what, id, why string) (metastore.Op, error) {
	e := Deed{At: now, By: c.o.By, From: c.o.From, What: what, ID: id, Why: why}
	if err := e.check(); err != nil {
		return metastore.Op{}, err
	}
	return c.op(metastore.Create, ownKey(keyAudit, c.user, idAt(now, deedTime)), e)
}

// Audit reads the audit, the oldest first, and what is wrong with entries that can't be read.
func (c *Client) Audit(ctx context.Context) (all []Deed, malformed []error, err error) {
	_, err = c.deedsBehind(ctx, 0, func(e Deed) error { all = append(all, e); return nil },
		func(problem error) { malformed = append(malformed, problem) })
	return all, malformed, err
}

// deedOf reads an entry of the audit.
func deedOf(v metastore.Value) (e Deed, err error) {
	if err = v.Decode(&e); err == nil {
		err = e.check()
	}
	user, _, ok := strings.Cut(strings.TrimPrefix(v.Key(), keyAudit+"/"), "/")
	if !ok {
		return e, err
	}
	if e.User = user; err == nil && e.By != user {
		err = fmt.Errorf("found it by %.80q among the entries of user %s", e.By, user)
	}
	return e, err
}

// FollowAudit gives each entry of the audit to f, the oldest first, and then those that come, a second after they were
// written or sooner, until f fails or ctx ends. What can't be read is given to problem.
func (c *Client) FollowAudit(ctx context.Context, f func(Deed) error, problem func(error)) error {
	woken := make(chan struct{}, 1)
	w, err := c.FollowChanges(func(string) bool {
		select {
		case woken <- struct{}{}:
		default:
		}
		return true
	})
	if err != nil {
		return err
	}
	defer func() { w.Stop(); <-w.Done() }()
	var newest uint64
	for {
		select {
		case <-woken:
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if newest, err = c.deedsBehind(ctx, newest, f, problem); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lookAgain is after how long the audit is read although nothing was heard: who has no role any more hears nothing, and
// is told by the reading.
const lookAgain = 5 * time.Second

// deedsBehind gives the entries that were made behind newest to f, and returns which is the newest now.
func (c *Client) deedsBehind(ctx context.Context, newest uint64, f func(Deed) error, problem func(error)) (uint64,
	error) {
	access, err := c.store.Access(ctx)
	if err != nil {
		return newest, err
	}
	values, err := c.store.Walk(ctx, keyAudit)
	if err != nil {
		return newest, err
	}
	slices.SortStableFunc(values, func(a, b metastore.Value) int {
		return cmp.Compare(a.Version.Created, b.Version.Created)
	})
	for _, v := range values {
		if !v.HasValue() || v.Version.Created <= newest {
			continue
		}
		newest = v.Version.Created
		e, err := deedOf(v)
		e.Known = e.User != "" && access != nil
		if err != nil {
			problem(&MalformedError{v.Key(), err})
		} else if err := f(e); err != nil {
			return newest, err
		}
	}
	return newest, nil
}

// trimAudit removes the oldest entries of this user where there are a tenth more than are kept. What fails is done by
// the next deed.
func (c *Client) trimAudit(ctx context.Context) {
	key := strings.TrimSuffix(ownKey(keyAudit, c.user, ""), "/")
	names, err := c.names(ctx, key)
	names = slices.DeleteFunc(names, func(name string) bool { return metastore.CheckUser(name) == nil }) // of others
	if err != nil || len(names) <= c.o.History+c.o.History/10 {
		return
	}
	for batch := range slices.Chunk(names[:len(names)-c.o.History], removeBatch) {
		var ops []metastore.Op
		for _, name := range batch {
			ops = append(ops, metastore.Op{Path: key + "/" + name, Do: metastore.Delete})
		}
		if c.store.Commit(ctx, nil, ops) != nil {
			return
		}
	}
}
