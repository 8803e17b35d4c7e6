// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Deed is what somebody has done, in the audit. It is written in the commit that does it.
type Deed struct {
	At   time.Time `json:"at"` // by the clock of who acts
	By   string    `json:"by"`
	From string    `json:"from,omitempty"`
	What string    `json:"what"`
	ID   string    `json:"experiment,omitempty"`
	Why  string    `json:"why,omitempty"`
}

func (e *Deed) check() error {
	return errors.Join(text("by", e.By, maxName), text("from", e.From, maxName), filled("what", e.What, maxName),
		text("experiment", e.ID, maxName), text("why", e.Why, MaxReason))
}

// newID makes an id that nobody else makes, without asking anybody. Ids sort by time as far as clocks agree.
func newID(now time.Time) string {
	return idAt(now, idTime)
}

func idAt(now time.Time, format string) string {
	return now.UTC().Format(format) + "-" + strings.ToLower(rand.Text()[:idRandom])
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
	return c.op(metastore.Create, keyAudit+"/"+idAt(now, deedTime), e)
}

// Audit reads the audit, the oldest first, and what is wrong with entries that can't be read.
func (c *Client) Audit(ctx context.Context) (all []Deed, malformed []error, err error) {
	values, err := c.store.Walk(ctx, keyAudit)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(values, func(a, b metastore.Value) int {
		return cmp.Compare(a.Version.Created, b.Version.Created)
	})
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		var e Deed
		err := v.Decode(&e)
		if err == nil {
			err = e.check()
		}
		if err != nil {
			malformed = append(malformed, &MalformedError{v.Key(), err})
			continue
		}
		all = append(all, e)
	}
	return all, malformed, nil
}

// trimAudit removes the oldest entries where there are a tenth more than are kept. What fails is done by who acts next.
func (c *Client) trimAudit(ctx context.Context) {
	names, err := c.names(ctx, keyAudit)
	if err != nil || len(names) <= c.o.History+c.o.History/10 {
		return
	}
	for batch := range slices.Chunk(names[:len(names)-c.o.History], removeBatch) {
		var ops []metastore.Op
		for _, name := range batch {
			ops = append(ops, metastore.Op{Path: keyAudit + "/" + name, Do: metastore.Delete})
		}
		if c.store.Commit(ctx, nil, ops) != nil {
			return
		}
	}
}
