// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// nodeCases are about which nodes there are, and what is read.
var nodeCases = []testCase{
	{"Nodes/ParentsAppearAndVanish", 0, parentsAppearAndVanish},
	{"Nodes/ParentsWithDataStay", 0, parentsWithDataStay},
	{"Nodes/DataGoesChildrenStay", 0, dataGoesChildrenStay},
	{"Nodes/LastChildReplaced", 0, lastChildReplaced},
	{"Nodes/ParentsInRaces", 0, parentsInRaces},
	{"Nodes/DeleteTree", 0, deleteTree},
	{"Nodes/DeleteTreeInRaces", 0, deleteTreeInRaces},
	{"Nodes/ChildrenSorted", 0, childrenSorted},
	{"Nodes/Tree", 0, tree},
	{"Nodes/ReadsSeeWrites", 0, readsSeeWrites},
	{"Nodes/BytesAreCopied", 0, bytesAreCopied},
	{"Nodes/Versions", 0, versions},
	{"Nodes/VersionsNeverComeBack", 0, versionsNeverComeBack},
	{"Nodes/CreatedRises", 0, createdRises},
	{"Nodes/Cluster", 0, cluster},
}

func parentsAppearAndVanish(e *env) {
	b := e.client()
	e.gone(b, "a")
	e.create(b, "a/b/c/d", "1")
	e.create(b, "a/b/x", "2")
	for _, key := range []string{"a", "a/b", "a/b/c"} {
		e.holds(b, key, "")
	}
	e.children(b, "a", "b")
	e.children(b, "a/b", "c", "x")
	e.children(b, "a/b/c/d")
	e.delete(b, "a/b/c/d")
	e.gone(b, "a/b/c/d")
	e.gone(b, "a/b/c")
	e.children(b, "a/b", "x")
	e.delete(b, "a/b/x")
	e.gone(b, "a/b")
	e.gone(b, "a")
	e.delete(b, "a/b/x") // nothing there is no conflict
	e.gone(b, "a")
}

func parentsWithDataStay(e *env) {
	b := e.client()
	e.set(b, "a/b", "1")
	e.set(b, "a/b/c/d", "2")
	e.delete(b, "a/b/c/d")
	e.gone(b, "a/b/c")
	e.holds(b, "a/b", "1")
	e.holds(b, "a", "")
	e.create(b, "p/q", "1")
	e.create(b, "p", "2") // an implicit parent holds no data: it can be created
	e.delete(b, "p/q")
	e.holds(b, "p", "2")
	e.children(b, "p")
}

func dataGoesChildrenStay(e *env) {
	b := e.client()
	e.set(b, "a", "1")
	e.set(b, "a/b", "2")
	e.delete(b, "a")
	e.holds(b, "a", "")
	e.holds(b, "a/b", "2")
	e.delete(b, "a") // holds none: nothing happens
	e.holds(b, "a/b", "2")
	e.conflicts(b, e.cond("a", metastore.Exists), []metastore.Cond{e.cond("a", metastore.Exists)})
	if err := b.Commit(e.ctx, []metastore.Cond{e.cond("a", metastore.Missing)}, nil); err != nil {
		e.Fatalf("a node that only has children isn't missing: %v", err)
	}
	e.delete(b, "a/b")
	e.gone(b, "a")
}

func lastChildReplaced(e *env) {
	b := e.client()
	e.set(b, "a/b/c", "1")
	e.commit(b, e.op(metastore.Delete, "a/b/c", ""), e.op(metastore.Create, "a/b/d", "2"))
	e.children(b, "a/b", "d")
	e.commit(b, e.op(metastore.Create, "a/x/y", "3"), e.op(metastore.Delete, "a/b/d", ""))
	e.gone(b, "a/b")
	e.children(b, "a", "x")
	e.set(b, "m/1/1", "1")
	e.set(b, "m/2/2", "2")
	e.commit(b, e.op(metastore.Delete, "m/1/1", ""), e.op(metastore.Delete, "m/2/2", ""))
	e.gone(b, "m")
	e.commit(b, e.op(metastore.Create, "n/1/1", "1"), e.op(metastore.Create, "n/1/2", "2"),
		e.op(metastore.Set, "n/1", "3"))
	e.children(b, "n/1", "1", "2")
	e.holds(b, "n/1", "3")
}

// One client's create meets another's delete of the last child, again and again.
func parentsInRaces(e *env) {
	const clients, rounds = 4, 40
	var all []metastore.Backend
	for range clients {
		all = append(all, e.client())
	}
	e.parallel(clients, func(i int) error {
		for r := range rounds {
			key := fmt.Sprintf("a/%d/b/%d", r%2, i)
			op := e.op(metastore.Create, key, "1")
			if err := all[i].Commit(e.ctx, nil, []metastore.Op{op}); err != nil {
				return fmt.Errorf("client %d, round %d, Create(%s): %w", i, r, key, err)
			}
			if n, err := all[i].Get(e.ctx, op.Path); err != nil || string(n.Value) != "1" {
				return fmt.Errorf("client %d, round %d: what it created isn't there: %q, %w", i, r, n.Value, err)
			}
			op = e.op(metastore.Delete, key, "")
			if err := all[i].Commit(e.ctx, nil, []metastore.Op{op}); err != nil {
				return fmt.Errorf("client %d, round %d, Delete(%s): %w", i, r, key, err)
			}
		}
		return nil
	})
	e.gone(all[0], "a")
}

func deleteTree(e *env) {
	b := e.client()
	for _, key := range []string{"p/a", "p/a/b", "p/a/b/c", "p/a/d/e", "p/ab", "p/a-b", "q/a/b"} {
		e.set(b, key, "1")
	}
	e.commit(b, e.op(metastore.DeleteTree, "p/a", ""))
	e.gone(b, "p/a")
	e.gone(b, "p/a/b/c")
	e.children(b, "p", "a-b", "ab")
	e.commit(b, e.op(metastore.DeleteTree, "p/a", "")) // nothing there is no conflict
	e.commit(b, e.op(metastore.DeleteTree, "q/a", ""))
	e.gone(b, "q")
	e.commit(b, e.op(metastore.DeleteTree, "p", ""), e.op(metastore.Set, "q", "2"))
	e.gone(b, "p")
	e.conflicts(b, e.cond("q", metastore.Missing), []metastore.Cond{e.cond("q", metastore.Missing)},
		e.op(metastore.DeleteTree, "q", ""))
	e.holds(b, "q", "2")
}

// A tree is deleted while others create in it: what a create that came later has made stays whole.
func deleteTreeInRaces(e *env) {
	const rounds = 30
	a, b := e.client(), e.client()
	done := make(chan struct{})
	e.parallel(2, func(i int) error {
		if i == 1 {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				if err := b.Commit(e.ctx, nil, []metastore.Op{e.op(metastore.DeleteTree, "t", "")}); err != nil {
					return fmt.Errorf("DeleteTree: %w", err)
				}
			}
		}
		defer close(done)
		for r := range rounds {
			ops := []metastore.Op{e.op(metastore.Set, fmt.Sprintf("t/%d/x", r), "1"),
				e.op(metastore.Set, fmt.Sprintf("u/%d", r), "1")}
			if err := a.Commit(e.ctx, nil, ops); err != nil {
				return fmt.Errorf("round %d: %w", r, err)
			}
		}
		return nil
	})
	e.commit(b, e.op(metastore.DeleteTree, "t", ""))
	e.gone(b, "t")
	if names, err := b.Children(e.ctx, e.path("u")); err != nil || len(names) != rounds {
		e.Fatalf("found %d names, %v; want %d: a commit beside a DeleteTree was done in part", len(names), err, rounds)
	}
}

func childrenSorted(e *env) {
	b := e.client()
	want := []string{"!", "10", "9", "A", "a", "a b", "a!", "a%2F", "a-b", "aa", "ab", "ä", "日本"}
	for i, name := range want {
		key := "d/" + name
		if i%3 == 0 {
			key += "/x" // an implicit child
		}
		e.set(b, key, "1")
	}
	e.children(b, "d", want...)
}

func tree(e *env) {
	b := e.client()
	if all, err := b.Tree(e.ctx, e.path("t")); err != nil || len(all) != 0 {
		e.Fatalf("found %v, %v; want nothing and no error", all, err)
	}
	keys := []string{"t", "t/a", "t/a-b", "t/a/b", "t/c/d/e", "t/ä"}
	for i, key := range keys {
		e.set(b, key, fmt.Sprint(i))
	}
	e.set(b, "tt", "no")
	e.set(b, "s", "no")
	all, err := b.Tree(e.ctx, e.path("t"))
	if err != nil || len(all) != len(keys) {
		e.Fatalf("found %v, %v; want %q", all, err, keys)
	}
	if !slices.IsSortedFunc(all, func(a, b metastore.Leaf) int { return strings.Compare(a.Path, b.Path) }) {
		e.Fatalf("not sorted: %v", all)
	}
	for _, leaf := range all {
		i := slices.IndexFunc(keys, func(key string) bool { return e.path(key) == leaf.Path })
		if i < 0 || string(leaf.Value) != fmt.Sprint(i) {
			e.Fatalf("found %s with %q", leaf.Path, leaf.Value)
		}
		if n := e.get(b, keys[i]); n.Version != leaf.Version || n.Ephemeral != leaf.Ephemeral {
			e.Fatalf("%s: Tree has %+v, Get %+v", leaf.Path, leaf.Node, n)
		}
	}
	if all, err = b.Tree(e.ctx, e.path("t/c/d/e")); err != nil || len(all) != 1 {
		e.Fatalf("found %v, %v; want the leaf itself", all, err)
	}
}

// What one client has written all others read at once.
func readsSeeWrites(e *env) {
	a, b := e.client(), e.client()
	for i := range 50 {
		want := fmt.Sprint(i)
		e.set(a, "v", want)
		e.holds(b, "v", want)
		e.set(a, "d/"+want, "1")
		if names, err := b.Children(e.ctx, e.path("d")); err != nil || !slices.Contains(names, want) {
			e.Fatalf("Children: found %q, %v, without %s", names, err, want)
		}
		if all, err := b.Tree(e.ctx, e.path("d")); err != nil || len(all) != i+1 {
			e.Fatalf("Tree: found %d nodes, %v; want %d", len(all), err, i+1)
		}
		e.delete(b, "v")
		e.gone(a, "v")
	}
}

// Neither side sees what the other does with its bytes.
func bytesAreCopied(e *env) {
	b := e.client()
	f := e.follow(b, "a", metastore.Data)
	f.next()
	value := []byte("hello")
	e.commit(b, metastore.Op{Path: e.path("a"), Do: metastore.Set, Value: value})
	value[0] = 'X'
	e.get(b, "a").Value[1] = 'X'
	f.next().Node.Value[2] = 'X'
	all, err := b.Tree(e.ctx, e.path("a"))
	if err != nil || len(all) != 1 {
		e.Fatalf("Tree: found %v, %v", all, err)
	}
	all[0].Value[3] = 'X'
	names, err := b.Children(e.ctx, e.root)
	if err != nil || len(names) != 1 {
		e.Fatalf("Children: found %v, %v", names, err)
	}
	names[0] = "X"
	e.holds(b, "a", "hello")
	g := e.follow(b, "a", metastore.Data)
	if s := g.next(); string(s.Node.Value) != "hello" {
		e.Fatalf("a feed: found %q", s.Node.Value)
	}
	e.set(b, "a", "other")
	if s := f.next(); string(s.Node.Value) != "other" {
		e.Fatalf("a feed: found %q", s.Node.Value)
	}
}

func versions(e *env) {
	a, b := e.client(), e.client()
	e.create(a, "v", "1")
	first := e.get(a, "v").Version
	if e.get(b, "v").Version != first {
		e.Fatal("two clients see different versions")
	}
	e.set(a, "w", "1")
	if e.get(b, "v").Version != first {
		e.Fatal("another node's change changed the version")
	}
	e.set(a, "v/child", "1")
	if e.get(b, "v").Version != first {
		e.Fatal("a child changed the version")
	}
	e.set(b, "v", "1") // the same bytes
	second := e.get(a, "v").Version
	if second == first || second.Created != first.Created {
		e.Fatalf("versions %v and %v: a change must give another, and keep Created", first, second)
	}
	set := e.op(metastore.Set, "v", "2")
	e.conflicts(a, e.at("v", first), []metastore.Cond{e.at("v", first)}, set)
	e.holds(a, "v", "1")
	if err := a.Commit(e.ctx, []metastore.Cond{e.at("v", second)}, []metastore.Op{set}); err != nil {
		e.Fatal(err)
	}
	e.holds(b, "v", "2")
	e.conflicts(a, e.at("none", first), []metastore.Cond{e.at("none", first)}, e.op(metastore.Set, "none", "2"))
	e.gone(a, "none")
	e.set(a, "p/q", "1")
	e.conflicts(a, e.at("p", metastore.Version{}), []metastore.Cond{e.at("p", metastore.Version{})})
}

// A version from before a delete never fits what is created after it.
func versionsNeverComeBack(e *env) {
	b := e.client()
	seen := map[metastore.Version]int{}
	var last metastore.Version
	for i := range 12 {
		e.create(b, "v", "same")
		v := e.get(b, "v").Version
		if before, twice := seen[v]; twice {
			e.Fatalf("version %v in rounds %d and %d", v, before, i)
		}
		seen[v] = i
		if i > 0 {
			e.conflicts(b, e.at("v", last), []metastore.Cond{e.at("v", last)}, e.op(metastore.Set, "v", "wrong"))
			e.conflicts(b, e.at("v", last), []metastore.Cond{e.at("v", last)}, e.op(metastore.Delete, "v", ""))
		}
		if last = v; i%2 == 0 {
			e.set(b, "v", "same")
			if last = e.get(b, "v").Version; last == v {
				e.Fatal("a change kept the version")
			}
			seen[last] = i
		}
		e.delete(b, "v")
	}
}

// Created orders nodes over all clients: it is a fencing token.
func createdRises(e *env) {
	all := []metastore.Backend{e.client(), e.client(), e.client()}
	var last uint64
	for i := range 30 {
		key := fmt.Sprintf("c/%d", i%7)
		e.delete(all[(i+1)%3], key)
		e.create(all[i%3], key, "1")
		now := e.get(all[(i+2)%3], key).Version.Created
		if now <= last {
			e.Fatalf("node %d has Created %d, the one before it %d", i, now, last)
		}
		e.set(all[(i+1)%3], key, "2")
		if again := e.get(all[i%3], key).Version.Created; again != now {
			e.Fatalf("Created went from %d to %d by a Set", now, again)
		}
		last = now
	}
}

func cluster(e *env) {
	a, b := e.client(), e.client()
	one, err := a.Cluster(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	if two, err := b.Cluster(e.ctx); err != nil || two != one {
		e.Fatalf("found %q, %v; the other client found %q", two, err, one)
	}
	if one == "" {
		e.Log("this engine can't tell clusters apart")
	}
}
