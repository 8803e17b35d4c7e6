// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// A leader reads all of all experiments as long as there are few of them, and each fullEvery. In between it reads what
// may matter: names, wishes of those that haven't ended, and those that somebody has named in the key fleet/changed.
const (
	fullMost  = 100
	fullEvery = time.Minute
)

// hints are the experiments that somebody has named as changed since the last look. Any goroutine may call its methods.
type hints struct {
	mu  sync.Mutex
	ids map[string]bool
	all bool // somebody has named none
}

// hintsMost bounds the experiments that are named between two looks: of more all are read.
const hintsMost = 1_000

// add takes a value of the key fleet/changed.
func (h *hints) add(changed string) {
	id, _, named := strings.Cut(changed, " ")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !named || len(h.ids) >= hintsMost || id != "" && checkID(id) != nil: // an older build's names none
		h.all = true
	case id != "":
		if h.ids == nil {
			h.ids = map[string]bool{}
		}
		h.ids[id] = true
	}
}

// take gives what was named since it was called last.
func (h *hints) take() (ids map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids, all = h.ids, h.all
	h.ids, h.all = nil, false
	return ids, all
}

// experiments reads those of which something may have changed.
func (t *term) experiments(ctx context.Context) (all []Experiment, err error) {
	named, every := t.hints.take()
	if every || len(t.state.order) <= fullMost || time.Since(t.full) >= fullEvery {
		t.full = time.Now()
		err = t.call(ctx, func(ctx context.Context) (err error) { all, err = t.Client.List(ctx); return err })
		return all, err
	}
	var names []string
	err = t.call(ctx, func(ctx context.Context) (err error) {
		names, err = t.Client.names(ctx, keyExperiments)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, id := range names {
		if e := t.state.experiments[id]; e == nil || !e.frozen() {
			if named == nil {
				named = map[string]bool{}
			}
			named[id] = true
		}
	}
	ids := slices.Sorted(maps.Keys(named))
	read := make([]*Experiment, len(ids))
	err = each(ids, func(i int, id *string) error {
		return t.call(ctx, func(ctx context.Context) (err error) {
			read[i], err = t.experiment(ctx, *id)
			return err
		})
	})
	for _, e := range read {
		if e != nil {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b Experiment) int { return cmp.Compare(a.Order, b.Order) })
	return all, err
}

// experiment reads one, of which the leader may know the rest: then its wish alone; nil where it is gone.
func (t *term) experiment(ctx context.Context, id string) (*Experiment, error) {
	known := t.state.experiments[id]
	if known == nil || !t.loaded[id] {
		values, err := t.Client.store.Walk(ctx, keyExperiments+"/"+id)
		return experiment(id, values), err
	}
	e := &Experiment{ID: id, Order: known.order, Spec: &known.Spec, Wish: new(Wish)}
	if known.written {
		e.Standing = &known.standing
	}
	var err error
	if e.WishAt, err = t.Client.get(ctx, wishKey(id), e.Wish); err == nil && e.WishAt == (metastore.Version{}) {
		return nil, nil
	}
	if err == nil {
		if err = e.Wish.check(); err != nil {
			err = &MalformedError{wishKey(id), err}
		}
	}
	if bad := (*MalformedError)(nil); errors.As(err, &bad) {
		e.Wish, e.Malformed, err = nil, []error{err}, nil
	}
	return e, err
}
