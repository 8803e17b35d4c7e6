// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/disco-sim/disco/metastore"
)

// keysOfGroup is how many keys one operation may read or change together. Groups are checked one by one.
const keysOfGroup = 2

// values are what the keys of a group hold; "" is nothing. No value is written twice, so that a value stands for its
// version too.
type values2 [keysOfGroup]string

// step is one operation on the keys of a group: conditions, and what is written then.
type step struct {
	group int
	read  bool                 // of key 0 or 1, or of the names of both
	names bool                 // which keys there are
	key   int                  // that is read
	when  [keysOfGroup]*string // the value that a key must hold, "" none; nil any
	write [keysOfGroup]*string // the value that a key gets, "" none; nil it stays
}

// outcome is what an operation has returned.
type outcome struct {
	value   string // read; of names: one letter for each key that is there
	refused bool   // a condition didn't hold
	unknown bool   // it was done at any time after its call, or never
}

// forever is when an operation returns whose outcome isn't known: after everything else.
const forever = math.MaxInt64

// history is what several clients did, with the times at which calls began and ended.
type history struct {
	start time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func newHistory() *history { return &history{start: time.Now()} }

// now is a time of the history, in nanoseconds.
func (h *history) now() int64 { return int64(time.Since(h.start)) }

// add records an operation that has ended. One that certainly wasn't done isn't part of the history.
func (h *history) add(client int, in any, out outcome, call int64, err error) error {
	end := h.now()
	var conflict *metastore.ConflictError
	switch {
	case errors.Is(err, metastore.ErrUnknown):
		out.unknown, end = true, forever
	case errors.As(err, &conflict):
		out.refused = true
	case errors.Is(err, metastore.ErrUnavailable):
		return nil
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
	return nil
}

// String counts what is in the history.
func (h *history) String() string {
	unknown, refused := 0, 0
	for _, op := range h.ops {
		o := op.Output.(outcome)
		if o.unknown {
			unknown++
		} else if o.refused {
			refused++
		}
	}
	return fmt.Sprintf("%d operations, %d refused, outcome of %d unknown", len(h.ops), refused, unknown)
}

// model is what the keys of a group should do.
var model = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		var groups [][]porcupine.Operation
		for _, op := range ops {
			g := op.Input.(step).group
			for len(groups) <= g {
				groups = append(groups, nil)
			}
			groups[g] = append(groups[g], op)
		}
		return groups
	},
	Init: func() any { return values2{} },
	Step: func(state, in, out any) (bool, any) {
		now, s, o := state.(values2), in.(step), out.(outcome)
		if s.read {
			return o.value == s.reads(now), now
		}
		next := now
		holds := true
		for k := range now {
			holds = holds && (s.when[k] == nil || *s.when[k] == now[k])
			if s.write[k] != nil {
				next[k] = *s.write[k]
			}
		}
		switch {
		case !holds:
			return o.refused || o.unknown, now
		case o.refused:
			return false, now
		}
		return true, next
	},
}

// reads is what a read returns of a state.
func (s step) reads(now values2) string {
	if !s.names {
		return now[s.key]
	}
	text := ""
	for k, v := range now {
		if v != "" {
			text += string(rune('a' + k))
		}
	}
	return text
}

// taken is the input of a queue's operations: an item is appended, or the first one is taken; none there is "".
type taken struct {
	add  bool
	item string
	name string // of the item
}

// lined is the state of a queue: its items, with a space after each, and the name that was given last.
type lined struct{ items, last string }

// queueModel is first in, first out, with names that rise.
var queueModel = porcupine.Model{
	Init: func() any { return lined{} },
	Step: func(state, in, _ any) (bool, any) {
		now, t := state.(lined), in.(taken)
		head := t.item + " "
		switch {
		case t.add:
			return t.name > now.last, lined{now.items + head, t.name}
		case t.item == "":
			return now.items == "", now
		}
		return strings.HasPrefix(now.items, head), lined{strings.TrimPrefix(now.items, head), now.last}
	},
}

// settle finds out what was done of a queue's operations whose outcome isn't known, now that the queue is empty and
// everybody has stopped. An item that was taken has been appended before that; one that nobody else has taken, and that
// was surely appended, was taken by who doesn't know. The others weren't done before the end.
func (h *history) settle() {
	taker := map[string]int{} // by item: who certainly took it, or the first of those who may have
	for i, op := range h.ops {
		t, unknown := op.Input.(taken), op.Output.(outcome).unknown
		if t.add || t.item == "" {
			continue
		}
		other, found := taker[t.item]
		if !found || !unknown || h.ops[other].Output.(outcome).unknown && op.Call < h.ops[other].Call {
			taker[t.item] = i
		}
	}
	var known []porcupine.Operation
	for i, op := range h.ops {
		t := op.Input.(taken)
		if op.Output.(outcome).unknown {
			by, done := taker[t.item]
			if !done || !t.add && by != i {
				continue
			}
			if t.add {
				t.name = h.ops[by].Input.(taken).name
				op.Return = h.ops[by].Return
			}
			op.Input, op.Output = t, outcome{}
		}
		known = append(known, op)
	}
	h.ops = known
}

// errUndecided is the error about a history whose check takes too long.
var errUndecided = errors.New("the history is too large to be checked in time")

// check tells whether there is an order of all operations, each between its call and its return, in which each returned
// what it did.
func (h *history) check(m porcupine.Model) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(m, h.ops, time.Minute) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%w: %d operations", errUndecided, len(h.ops))
	}
	groups := [][]porcupine.Operation{h.ops}
	if m.Partition != nil {
		groups = m.Partition(h.ops)
	}
	for _, ops := range groups {
		if porcupine.CheckOperationsTimeout(m, ops, time.Minute) != porcupine.Ok {
			return fmt.Errorf("not linearizable:\n%s", describe(ops))
		}
	}
	return errors.New("not linearizable, but each group by itself is")
}

// describe lists a history by the times of the calls.
func describe(ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range ops {
		end := fmt.Sprintf("%9.3f", float64(op.Return)/1e6)
		if op.Return == forever {
			end = "        –"
		}
		fmt.Fprintf(&b, "%9.3f %s ms, client %d: %v\n", float64(op.Call)/1e6, end, op.ClientId, describeOne(op))
	}
	return b.String()
}

// describeOne is one operation with its outcome.
func describeOne(op porcupine.Operation) string {
	o := op.Output.(outcome)
	result := map[bool]string{true: " refused", false: ""}[o.refused] + map[bool]string{true: " unknown"}[o.unknown]
	if t, ok := op.Input.(taken); ok {
		return fmt.Sprintf("%s %q, %s%s", map[bool]string{true: "append", false: "take"}[t.add], t.item, t.name, result)
	}
	s := op.Input.(step)
	if s.read {
		return fmt.Sprintf("read %d (names: %v) = %q", s.key, s.names, o.value)
	}
	text := ""
	for k := range s.when {
		if s.when[k] != nil {
			text += fmt.Sprintf("if %d = %q ", k, *s.when[k])
		}
	}
	for k := range s.write {
		if s.write[k] != nil {
			text += fmt.Sprintf("%d := %q ", k, *s.write[k])
		}
	}
	return text + result
}
