// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/disco-sim/disco/metastore"
)

// commitCases are about conditions and operations.
var commitCases = []testCase{
	{"Commit/Kinds", 0, commitKinds},
	{"Commit/AllOrNothing", 0, allOrNothing},
	{"Commit/WhichCondition", 0, whichCondition},
	{"Commit/Empty", 0, emptyCommit},
	{"Commit/Largest", 0, largestCommit},
	{"Commit/CompareAndSet", 0, compareAndSet},
	{"Commit/OneCreates", 0, oneCreates},
}

// limitCases are about what is refused.
var limitCases = []testCase{
	{"Limits/Values", 0, values},
	{"Limits/Names", 0, namesAndPaths},
	{"Limits/Refused", 0, refused},
}

// appendCases are about Append.
var appendCases = []testCase{
	{"Append/Order", 0, appendOrder},
	{"Append/AfterEmpty", 0, appendAfterEmpty},
	{"Append/Values", 0, appendValues},
}

func commitKinds(e *env) {
	b := e.client()
	e.create(b, "a", "1")
	e.conflicts(b, e.cond("a", metastore.Missing), nil, e.op(metastore.Create, "a", "2"))
	e.holds(b, "a", "1")
	e.set(b, "a", "2") // there is some
	e.set(b, "b", "3") // there is none
	e.holds(b, "a", "2")
	e.holds(b, "b", "3")
	e.delete(b, "a")
	e.create(b, "a", "4")
	n := e.holds(b, "a", "4")
	conds := []metastore.Cond{e.at("a", n.Version), e.cond("b", metastore.Exists), e.cond("c", metastore.Missing)}
	ops := []metastore.Op{e.op(metastore.Set, "a", "5"), e.op(metastore.Delete, "b", ""),
		e.op(metastore.Create, "c", "6")}
	if err := b.Commit(e.ctx, conds, ops); err != nil {
		e.Fatal(err)
	}
	e.holds(b, "a", "5")
	e.gone(b, "b")
	e.holds(b, "c", "6")
	e.conflicts(b, conds[0], conds, ops...)
}

// Whatever fails, and wherever it stands, nothing has been done.
func allOrNothing(e *env) {
	b := e.client()
	e.set(b, "a", "1")
	e.set(b, "t/u", "1")
	old := e.get(b, "a").Version
	e.set(b, "a", "2")
	ops := []metastore.Op{e.op(metastore.Set, "a", "x"), e.op(metastore.Create, "n/m", "x"),
		e.op(metastore.DeleteTree, "t", ""), e.op(metastore.Delete, "none", "")}
	conds := []metastore.Cond{e.at("a", old), e.cond("a", metastore.Missing), e.cond("none", metastore.Exists)}
	for _, c := range conds {
		e.conflicts(b, c, []metastore.Cond{c}, ops...)
	}
	for i := range len(ops) + 1 {
		bad := e.op(metastore.Create, "there", "x")
		e.set(b, "there", "1")
		e.conflicts(b, e.cond("there", metastore.Missing), nil, slices.Insert(slices.Clone(ops), i, bad)...)
	}
	e.holds(b, "a", "2")
	e.holds(b, "t/u", "1")
	e.holds(b, "there", "1")
	e.gone(b, "n")
}

func whichCondition(e *env) {
	b := e.client()
	e.set(b, "a", "1")
	v := e.get(b, "a").Version
	good := []metastore.Cond{e.cond("a", metastore.Exists), e.cond("b", metastore.Missing), e.at("a", v)}
	set := e.op(metastore.Set, "c", "1")
	if err := b.Commit(e.ctx, good, []metastore.Op{set}); err != nil {
		e.Fatal(err)
	}
	bad := []metastore.Cond{e.cond("a", metastore.Missing), e.cond("b", metastore.Exists), e.at("b", v),
		e.at("c", v), e.at("a", metastore.Version{Created: v.Created, Changed: v.Changed + 1<<40})}
	for i, c := range bad {
		for at := range len(good) + 1 {
			e.conflicts(b, c, slices.Insert(slices.Clone(good), at, c), set)
		}
		e.conflicts(b, c, []metastore.Cond{good[0], c, bad[(i+1)%len(bad)]}, set) // the first that fails
	}
}

func emptyCommit(e *env) {
	b := e.client()
	if err := b.Commit(e.ctx, nil, nil); err != nil {
		e.Fatalf("an empty commit: %v", err)
	}
	if err := b.Commit(e.ctx, []metastore.Cond{e.cond("a", metastore.Missing)}, nil); err != nil {
		e.Fatalf("conditions only: %v", err)
	}
	e.conflicts(b, e.cond("a", metastore.Exists), []metastore.Cond{e.cond("a", metastore.Exists)})
	e.gone(b, "a")
}

// MaxOps conditions and operations fit, each with parents of its own, and one more doesn't.
func largestCommit(e *env) {
	b := e.client()
	var conds []metastore.Cond
	var ops []metastore.Op
	for i := range metastore.MaxOps / 2 {
		key := fmt.Sprintf("m/%d/p/q", i)
		conds = append(conds, e.cond(key, metastore.Missing))
		ops = append(ops, e.op(metastore.Create, key, strings.Repeat("v", 1000)))
	}
	if err := b.Commit(e.ctx, conds, ops); err != nil {
		e.Fatal(err)
	}
	if names, err := b.Children(e.ctx, e.path("m")); err != nil || len(names) != len(ops) {
		e.Fatalf("found %d names, %v", len(names), err)
	}
	e.fails(b, metastore.ErrTooLarge, conds, append(slices.Clone(ops), e.op(metastore.Set, "more", "1"))...)
	e.gone(b, "more")
	for i := range ops {
		ops[i] = metastore.Op{Path: ops[i].Path, Do: metastore.Delete}
		conds[i].Is = metastore.Exists
	}
	if err := b.Commit(e.ctx, conds, ops); err != nil {
		e.Fatal(err)
	}
	e.gone(b, "m")
}

// A counter that several clients raise by compare-and-set loses nothing.
func compareAndSet(e *env) {
	const clients, rounds = 4, 15
	var all []metastore.Backend
	for range clients {
		all = append(all, e.client())
	}
	e.create(all[0], "counter", "0")
	var conflicts atomic.Int64
	e.parallel(clients, func(i int) error {
		for done := 0; done < rounds; {
			n, err := all[i].Get(e.ctx, e.path("counter"))
			if err != nil {
				return err
			}
			var count int
			if _, err := fmt.Sscan(string(n.Value), &count); err != nil {
				return err
			}
			err = all[i].Commit(e.ctx, []metastore.Cond{e.at("counter", n.Version)},
				[]metastore.Op{e.op(metastore.Set, "counter", fmt.Sprint(count+1))})
			var conflict *metastore.ConflictError
			switch {
			case err == nil:
				done++
			case !errors.As(err, &conflict):
				return err
			default:
				conflicts.Add(1)
			}
		}
		return nil
	})
	e.holds(all[0], "counter", fmt.Sprint(clients*rounds))
	e.Logf("%d conflicts", conflicts.Load())
}

func oneCreates(e *env) {
	const clients = 4
	var all []metastore.Backend
	for range clients {
		all = append(all, e.client())
	}
	for r := range 15 {
		key := fmt.Sprintf("x/%d", r)
		var won atomic.Int64
		e.parallel(clients, func(i int) error {
			err := all[i].Commit(e.ctx, nil, []metastore.Op{e.op(metastore.Create, key, fmt.Sprint(i))})
			var conflict *metastore.ConflictError
			if err == nil {
				won.Add(1)
			} else if !errors.As(err, &conflict) || conflict.Cond != e.cond(key, metastore.Missing) {
				return fmt.Errorf("client %d: %w", i, err)
			}
			return nil
		})
		if won.Load() != 1 {
			e.Fatalf("round %d: %d clients created %s", r, won.Load(), key)
		}
	}
}

func values(e *env) {
	b := e.client()
	large := bytes.Repeat([]byte("0123456789"), metastore.MaxValue/10)
	f := e.follow(b, "large", metastore.Data)
	f.next()
	e.commit(b, metastore.Op{Path: e.path("large"), Do: metastore.Create, Value: large})
	large[7] = 'x'
	e.commit(b, metastore.Op{Path: e.path("large"), Do: metastore.Set, Value: large})
	if n := e.get(b, "large"); !bytes.Equal(n.Value, large) {
		e.Fatalf("found %d other bytes", len(n.Value))
	}
	if all, err := b.Tree(e.ctx, e.path("large")); err != nil || len(all) != 1 || !bytes.Equal(all[0].Value, large) {
		e.Fatalf("Tree: %d, %v", len(all), err)
	}
	f.await(func(s metastore.State) bool { return bytes.Equal(s.Node.Value, large) })
	for _, do := range []metastore.OpKind{metastore.Create, metastore.Set} {
		op := metastore.Op{Path: e.path("more"), Do: do, Value: append(slices.Clone(large), 'x')}
		e.fails(b, metastore.ErrTooLarge, nil, op, e.op(metastore.Set, "beside", "1"))
	}
	half := large[:len(large)/2]
	e.fails(b, metastore.ErrTooLarge, nil, metastore.Op{Path: e.path("h1"), Do: metastore.Set, Value: half},
		metastore.Op{Path: e.path("h2"), Do: metastore.Set, Value: append(slices.Clone(half), 'x')})
	e.commit(b, metastore.Op{Path: e.path("h1"), Do: metastore.Set, Value: half},
		metastore.Op{Path: e.path("h2"), Do: metastore.Set, Value: half})
	for _, key := range []string{"more", "beside"} {
		e.gone(b, key)
	}
	var every [256]byte
	for i := range every {
		every[i] = byte(i)
	}
	e.commit(b, metastore.Op{Path: e.path("bytes"), Do: metastore.Set, Value: every[:]})
	e.holds(b, "bytes", string(every[:]))
	e.commit(b, metastore.Op{Path: e.path("bytes"), Do: metastore.Set, Value: []byte{0}})
	e.holds(b, "bytes", "\x00")
}

func namesAndPaths(e *env) {
	b := e.client()
	long := strings.Repeat("n", metastore.MaxName)
	for _, name := range []string{long, "...", ".a", "a.", "a b", " ", "%00", "*", "?", "[a]", `a\b`, "a:b", "~", "-",
		"#", "ä", "日本語", "a\u00adb", "🙂", "zookeeper", "'", `"`} {
		if _, err := metastore.Path(e.root, "names/"+name); err != nil {
			continue // refused for all engines alike
		}
		e.create(b, "names/"+name, "1")
		e.holds(b, "names/"+name, "1")
		e.children(b, "names", name)
		e.delete(b, "names/"+name)
		e.gone(b, "names")
	}
	rest := metastore.MaxPath - len(e.root)
	key := strings.Repeat("/123456789", rest/10)[1:]
	key += strings.Repeat("x", rest-1-len(key))
	e.create(b, key, "1")
	e.holds(b, key, "1")
	e.delete(b, key)
	e.gone(b, "123456789")
	e.gone(b, "names")
}

// What CheckCommit and CheckAppend refuse is refused by the engine, before anything is done.
func refused(e *env) {
	b := e.client()
	for _, path := range []string{"", "a", e.root + "/", e.root + "//a", e.root + "/..", e.root + "/../x",
		e.root + "/.", e.root + "/\x00", e.root + "/" + strings.Repeat("n", metastore.MaxName+1),
		e.root + strings.Repeat("/n", metastore.MaxPath/2)} {
		op := metastore.Op{Path: path, Do: metastore.Set, Value: []byte("1")}
		if err := b.Commit(e.ctx, nil, []metastore.Op{e.op(metastore.Set, "a", "1"), op}); err == nil {
			e.Errorf("Commit takes the path %q", path)
		}
		if name, err := b.Append(e.ctx, path, []byte("1")); err == nil {
			e.Errorf("Append takes the path %q, and made %s", path, name)
		}
		if err := b.Commit(e.ctx, []metastore.Cond{{Path: path, Is: metastore.Missing}}, nil); err == nil {
			e.Errorf("Commit takes the condition's path %q", path)
		}
	}
	for _, ops := range [][]metastore.Op{
		{e.op(metastore.Set, "a", "1"), e.op(metastore.Set, "b", "")},
		{e.op(metastore.Set, "a", "1"), e.op(metastore.Delete, "a", "")},
		{e.op(metastore.Set, "a/b", "1"), e.op(metastore.DeleteTree, "a", "")},
		{e.op(metastore.Set, "a", "1"), {Path: e.path("b")}},
	} {
		if err := b.Commit(e.ctx, nil, ops); err == nil {
			e.Errorf("Commit does %v", ops)
		}
	}
	e.gone(b, "a")
}

// Names follow the order in which appends were done, over all clients, and none gets lost.
func appendOrder(e *env) {
	const clients, rounds = 4, 15
	var all []metastore.Backend
	for range clients {
		all = append(all, e.client())
	}
	made := make([][]string, clients)
	e.parallel(clients, func(i int) error {
		for r := range rounds {
			name, err := all[i].Append(e.ctx, e.path("q/items"), fmt.Appendf(nil, "%d %d", i, r))
			if err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			made[i] = append(made[i], name)
		}
		return nil
	})
	names, err := all[0].Children(e.ctx, e.path("q/items"))
	if err != nil || len(names) != clients*rounds {
		e.Fatalf("found %d names, %v; want %d", len(names), err, clients*rounds)
	}
	for i, mine := range made {
		if !slices.IsSorted(mine) {
			e.Errorf("client %d appended in the order %q", i, mine)
		}
		for r, name := range mine {
			e.holds(all[(i+1)%clients], "q/items/"+name, fmt.Sprintf("%d %d", i, r))
		}
	}
	var last string
	for i := range 20 { // one after the other, by any client
		name, err := all[i%clients].Append(e.ctx, e.path("q/items"), []byte("1"))
		if err != nil || name <= last || name <= names[len(names)-1] {
			e.Fatalf("append %d: found %q, %v, after %q", i, name, err, last)
		}
		last = name
	}
}

// A name sorts after all before it even if none of them is left.
func appendAfterEmpty(e *env) {
	b := e.client()
	var last string
	for i := range 6 {
		name, err := b.Append(e.ctx, e.path("q"), []byte("1"))
		if err != nil || name <= last {
			e.Fatalf("append %d: found %q, %v, after %q", i, name, err, last)
		}
		if last = name; i%3 != 0 {
			e.delete(b, "q/"+name)
		}
		if i == 3 {
			e.commit(b, e.op(metastore.DeleteTree, "q", ""))
			e.gone(b, "q")
		}
	}
}

func appendValues(e *env) {
	b := e.client()
	e.set(b, "q/zzz", "other children don't matter")
	large := bytes.Repeat([]byte("x"), metastore.MaxValue)
	if _, err := b.Append(e.ctx, e.path("q"), large); err != nil {
		e.Fatal(err)
	}
	if _, err := b.Append(e.ctx, e.path("q"), append(large, 'x')); !errors.Is(err, metastore.ErrTooLarge) {
		e.Fatalf("found %v, want ErrTooLarge", err)
	}
	if _, err := b.Append(e.ctx, e.path("q"), nil); err == nil {
		e.Fatal("Append takes no bytes")
	}
	if names, err := b.Children(e.ctx, e.path("q")); err != nil || len(names) != 2 {
		e.Fatalf("found %q, %v", names, err)
	}
}
