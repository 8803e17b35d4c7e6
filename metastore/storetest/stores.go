// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// storeCases are about keys and values.
var storeCases = []testCase{
	{"Store/Keys", 0, storeKeys},
	{"Store/Values", 0, storeValues},
	{"Store/Codecs", 0, codecs},
	{"Store/Malformed", 0, malformed},
	{"Store/Base", 0, baseStructure},
	{"Store/EnsureUnanswered", 0, ensureUnanswered},
	{"Store/Groups", 0, groups},
	{"Store/Identity", 0, identities},
	{"Store/OtherCluster", 0, otherCluster},
	{"Store/Commit", 0, storeCommit},
	{"Store/Update", 0, update},
	{"Store/UpdateInRaces", 0, func(e *env) { updateInRaces(e, 0) }},
	{"Store/UpdateUnknown", 0, func(e *env) { updateInRaces(e, 0.2) }},
	{"Store/UpdateUnknownCreates", 0, updateUnknownCreates},
	{"Store/Ephemeral", 0, storeEphemeral},
	{"Store/EphemeralUnknown", 0, storeEphemeralUnknown},
	{"Store/Close", 0, storeClose},
}

// reports collects problems that no caller waits for.
type reports struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func newReports() *reports { return &reports{more: make(chan struct{}, 1)} }

func (r *reports) report(problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, problem.Error())
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// await waits for a report that has a text.
func (r *reports) await(e *env, text string) {
	e.Helper()
	for {
		r.mu.Lock()
		found := slices.ContainsFunc(r.all, func(s string) bool { return strings.Contains(s, text) })
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-r.more:
		case <-e.ctx.Done():
			e.Fatalf("nothing reports %q; found %q", text, r.all)
		}
	}
}

// store opens a store in the case's part of the tree. Its reports fail the test.
func (e *env) store() *metastore.Store {
	e.Helper()
	return e.open(e.engine.New(e), metastore.Options{Report: func(problem error) { e.Errorf("reported: %v", problem) }})
}

// open opens a store over a client.
func (e *env) open(b metastore.Backend, o metastore.Options) *metastore.Store {
	e.Helper()
	o.Chroot = e.root[1:]
	if o.Group == "" {
		o.Group = "g"
	}
	s, err := metastore.New(e.ctx, b, o)
	if err != nil {
		e.Fatalf("New: %v", err)
	}
	e.Cleanup(func() { e.check("Close", s.Close()) })
	return s
}

// check fails by an error.
func (e *env) check(what string, err error) {
	e.Helper()
	if err != nil {
		e.Errorf("%s: %v", what, err)
	}
}

// put must succeed.
func (e *env) put(s *metastore.Store, key string, value any) {
	e.Helper()
	if err := s.Put(e.ctx, key, value); err != nil {
		e.Fatal(err)
	}
}

// has checks what a key holds, decoded into what fits it.
func (e *env) has(s *metastore.Store, key string, want any) metastore.Value {
	e.Helper()
	v, err := s.Get(e.ctx, key)
	if err != nil {
		e.Fatal(err)
	}
	if got, err := v.Any(); err != nil || !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: found %#v, %v; want %#v", key, got, err, want)
	}
	return v
}

// is checks an error.
func (e *env) is(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: found %v, want %v", what, err, want)
	}
}

// isConflict checks that an error is about a condition on a key.
func (e *env) isConflict(what string, err error, key string) {
	e.Helper()
	var conflict *metastore.ConflictError
	if !errors.As(err, &conflict) || conflict.Cond.Path != key {
		e.Fatalf("%s: found %v, want a conflict about %q", what, err, key)
	}
}

// members checks the names below a key.
func (e *env) members(s *metastore.Store, key string, want ...string) {
	e.Helper()
	names, err := s.Members(e.ctx, key)
	if err != nil || !slices.Equal(names, want) {
		e.Fatalf("members of %q: found %q, %v; want %q", key, names, err, want)
	}
}

// contains checks whether a key exists.
func (e *env) contains(s *metastore.Store, key string, want bool) {
	e.Helper()
	if found, err := s.Contains(e.ctx, key); err != nil || found != want {
		e.Fatalf("Contains(%q): found %v, %v; want %v", key, found, err, want)
	}
}

func storeKeys(e *env) {
	s := e.store()
	e.contains(s, "a", false)
	_, err := s.Get(e.ctx, "a")
	e.is("Get", err, metastore.ErrNoNode)
	_, err = s.Members(e.ctx, "a")
	e.is("Members", err, metastore.ErrNoNode)
	e.put(s, "a/b/c", 1)
	e.put(s, "/a/x", 2) // the same with a slash in front
	e.contains(s, "a/b", true)
	e.members(s, "a", "b", "x")
	e.members(s, "", "a")
	e.members(s, "/", "a")
	v, err := s.Get(e.ctx, "a")
	if err != nil || !v.Exists() || v.HasValue() {
		e.Fatalf("found %+v, %v: it only has children", v, err)
	}
	e.is("Decode", v.Decode(new(int)), metastore.ErrNoValue)
	e.put(s, "a", "both")
	e.has(s, "a", "both")
	e.has(s, "a/b/c", int64(1))
	e.check("Delete", s.Delete(e.ctx, "a"))
	e.has(s, "/a/x", int64(2))
	e.check("DeleteTree", s.DeleteTree(e.ctx, "a"))
	e.check("DeleteTree", s.DeleteTree(e.ctx, "a"))
	e.check("Delete", s.Delete(e.ctx, "a"))
	e.contains(s, "a", false)
	for _, key := range []string{"", "/", "..", "a/../b", "../g/a", ".", "a//b", "a/", "a\x00", ".disco", "/.disco",
		".disco/a", strings.Repeat("k", metastore.MaxName+1)} {
		if err := s.Put(e.ctx, key, 1); err == nil {
			e.Errorf("Put(%q) has no error", key)
		}
		if key == "" || key == "/" {
			continue
		}
		if v, err := s.Get(e.ctx, key); err == nil {
			e.Errorf("Get(%q) finds %v", key, v)
		}
		if _, err := s.Watch(e.ctx, key, nil); err == nil {
			e.Errorf("Watch(%q) has no error", key)
		}
	}
	if err := s.DeleteTree(e.ctx, ""); err == nil {
		e.Error("the group deletes itself")
	}
	fits := strings.Repeat("x", metastore.MaxEncoded-2) // with two quotes
	for _, text := range []string{fits, fits + "x"} {
		_, _, ephemeral := s.PutEphemeral(e.ctx, "e/"+text[:len(text)-len(fits)+1], text)
		_, queued := s.Enqueue(e.ctx, "q", text)
		for call, err := range map[string]error{"Put": s.Put(e.ctx, "a", text), "Enqueue": queued,
			"PutEphemeral": ephemeral, "Update": s.Update(e.ctx, "a", func(metastore.Value) (any, error) {
				return text, nil
			})} {
			if text == fits && err != nil {
				e.Errorf("%s of %d bytes: %v", call, len(text)+2, err)
			} else if text != fits {
				e.is(call+" of a large value", err, metastore.ErrTooLarge)
			}
		}
	}
}

// worker is a value with a type of its own.
type worker struct {
	Host  string `json:"host"`
	Slots []int  `json:"slots,omitempty"`
}

func storeValues(e *env) {
	s := e.store()
	for i, want := range []any{nil, true, int64(-1), int64(1) << 62, 1.5, 1e300, "", "text <&>", []any{int64(1), "a"},
		map[string]any{"a": map[string]any{"b": []any{}}, "n": int64(1<<53 + 1)}} {
		key := fmt.Sprint("v", i)
		e.put(s, key, want)
		e.has(s, key, want)
	}
	want := worker{"h1", []int{3, 1}}
	e.put(s, "w", want)
	v, err := s.Get(e.ctx, "w")
	var found worker
	if err == nil {
		err = v.Decode(&found)
	}
	if err != nil || !reflect.DeepEqual(found, want) {
		e.Fatalf("found %+v, %v; want %+v", found, err, want)
	}
	if got := string(v.Bytes()); got != `{"host":"h1","slots":[3,1]}` {
		e.Fatalf("it is stored as %s", got)
	}
	if err := v.Decode(new([]int)); err == nil {
		e.Fatal("a map is decoded as a list")
	}
	if err := s.Put(e.ctx, "bad", make(chan int)); err == nil {
		e.Fatal("a channel is stored")
	}
	e.contains(s, "bad", false)
}

// upper is a codec of the test's own.
type upper struct{}

func (upper) Encode(v any) ([]byte, error) { return []byte(strings.ToUpper(fmt.Sprint(v))), nil }
func (upper) Decode(data []byte, into any) error {
	*into.(*any) = string(data)
	return nil
}

// Each value says how it is encoded: stores with different codecs read each other's.
func codecs(e *env) {
	j, c := e.store(), e.open(e.engine.New(e), metastore.Options{Codec: metastore.CBOR})
	x := e.open(e.engine.New(e), metastore.Options{Codec: upper{}})
	e.put(j, "j", map[string]any{"a": 1})
	e.put(c, "c", map[string]any{"a": -1, "b": []byte{1}, "t": "x"})
	e.put(x, "x", "own")
	for _, s := range []*metastore.Store{j, c, x} {
		e.has(s, "j", map[string]any{"a": int64(1)})
		e.has(s, "c", map[string]any{"a": int64(-1), "b": []byte{1}, "t": "x"})
	}
	e.has(x, "x", "OWN")
	v, err := j.Get(e.ctx, "x")
	if err != nil {
		e.Fatal(err)
	}
	if _, err := v.Any(); err == nil || !strings.Contains(err.Error(), "Options.Codec") {
		e.Fatalf("found %v, want that the codec is missing", err)
	}
	e.put(c, "j", "over") // with another codec
	e.has(j, "j", "over")
	want := worker{"h1", []int{3, 1}}
	e.put(c, "w", want)
	var found worker
	if v, err = j.Get(e.ctx, "w"); err == nil {
		err = v.Decode(&found)
	}
	if err != nil || !reflect.DeepEqual(found, want) {
		e.Fatalf("found %+v, %v; want %+v", found, err, want)
	}
}

// What is malformed is an error of its own key, where it is decoded.
func malformed(e *env) {
	b, s := e.client(), e.store()
	for i, raw := range []string{"z1", "dx", "J123", "j", "j{", "j1 2", "c\xff", "c", `j"` + "\xff"} {
		key := fmt.Sprint("m", i)
		e.set(b, "g/"+key, raw)
		v, err := s.Get(e.ctx, key)
		if err != nil {
			e.Fatal(err)
		}
		if _, err := v.Any(); err == nil || !strings.Contains(err.Error(), key) {
			e.Errorf("%q: found %v, want an error that names the key", raw, err)
		}
	}
	e.put(s, "good", 1)
	e.has(s, "good", int64(1))
	if _, err := s.GetTree(e.ctx, "m0", nil); err == nil {
		e.Error("GetTree reads a malformed value")
	}
	e.put(s, "m0", 1)
	e.has(s, "m0", int64(1))
}

func baseStructure(e *env) {
	base := []string{"cluster/servers", "a", "a/b"}
	s := e.open(e.engine.New(e), metastore.Options{Base: base})
	for _, key := range base {
		v, err := s.Get(e.ctx, key)
		if err != nil || !v.Exists() || v.HasValue() {
			e.Fatalf("%s: found %+v, %v; want a directory", key, v, err)
		}
	}
	e.members(s, "", "a", "cluster")
	e.put(s, "cluster/servers/x", 1)
	e.put(s, "a", "mine")
	again := e.open(e.engine.New(e), metastore.Options{Base: base})
	e.has(again, "a", "mine")
	e.has(again, "cluster/servers/x", int64(1))
	e.check("Delete", s.Delete(e.ctx, "cluster/servers/x"))
	e.contains(s, "cluster/servers", true) // it stays when it is empty
	o := metastore.Options{Chroot: e.root, Base: []string{"../x"}}
	if _, err := metastore.New(e.ctx, e.engine.New(e), o); err == nil {
		e.Fatal("a base structure leaves its group")
	}
}

// Changes that may be done again have no unknown outcome: without an answer the store can't be reached, and they are
// done by a later call.
func ensureUnanswered(e *env) {
	b, other := newLossy(e.engine.New(e), 0, 1), e.store()
	s := e.open(b, metastore.Options{})
	_, _, err := other.PutEphemeral(e.ctx, "d/e", 1)
	e.check("PutEphemeral", err)
	owner, lead := e.has(other, "d/e", int64(1)).Owner, e.campaign(s, 1)
	changes := map[string]func(ctx context.Context) error{
		"Ensure":      func(ctx context.Context) error { return s.Ensure(ctx, "v") },
		"Enqueue":     func(ctx context.Context) error { _, err := s.Enqueue(ctx, "q", 1); return err },
		"DeleteOwned": func(ctx context.Context) error { return s.DeleteOwned(ctx, owner) },
		"Resign":      lead.Resign,
	}
	b.cut(true)
	for name, change := range changes {
		ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
		err := change(ctx)
		cancel()
		if !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) ||
			!errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("%s: found %v, want ErrUnavailable and the context's error", name, err)
		}
	}
	b.cut(false)
	for name, change := range changes {
		e.check(name, change(e.ctx))
	}
	e.contains(other, "v", true)
	e.contains(other, "d/e", false)
	e.dequeue(other, "1")
}

func groups(e *env) {
	a := e.open(e.engine.New(e), metastore.Options{Group: "a"})
	ab := e.open(e.engine.New(e), metastore.Options{Group: "a/b"})
	other := e.open(e.engine.New(e), metastore.Options{Group: "other"})
	e.put(a, "k", "a")
	e.put(ab, "k", "ab")
	e.put(other, "k", "other")
	e.has(a, "k", "a")
	e.has(ab, "k", "ab")
	e.has(other, "k", "other")
	e.has(a, "b/k", "ab") // a group in a group
	e.members(ab, "", "k")
	raw := e.client()
	if n := e.get(raw, "other/k"); string(n.Value) != `j"other"` {
		e.Fatalf("chroot and group: found %q", n.Value)
	}
	e.check("DeleteTree", ab.DeleteTree(e.ctx, "k"))
	e.has(a, "k", "a")
	for _, bad := range []string{"..", "a/..", "a//b", "\x00"} {
		for _, o := range []metastore.Options{{Group: bad}, {Chroot: bad}} {
			if _, err := metastore.New(e.ctx, e.engine.New(e), o); err == nil {
				e.Errorf("%+v is accepted", o)
			}
		}
	}
}

func identities(e *env) {
	a, b := e.store(), e.store()
	if a.Cluster() == "" || a.Cluster() != b.Cluster() {
		e.Fatalf("found %q and %q", a.Cluster(), b.Cluster())
	}
	if other := e.open(e.engine.New(e), metastore.Options{Group: "other"}); other.Cluster() == a.Cluster() {
		e.Fatal("two groups have the same name")
	}
	e.open(e.engine.New(e), metastore.Options{Cluster: a.Cluster()})
	o := metastore.Options{Chroot: e.root, Group: "g", Cluster: "another"}
	_, err := metastore.New(e.ctx, e.engine.New(e), o)
	e.is("another cluster", err, metastore.ErrWrongCluster)
	raw := e.client()
	e.set(raw, "new/.disco", `j{"format":2,"cluster":"x"}`)
	o.Group = "new"
	if _, err = metastore.New(e.ctx, e.engine.New(e), o); err == nil || !strings.Contains(err.Error(), "format 2") {
		e.Fatalf("found %v, want that format 2 is refused", err)
	}
	e.set(raw, "new/.disco", "garbage")
	if _, err = metastore.New(e.ctx, e.engine.New(e), o); err == nil || !strings.Contains(err.Error(), ".disco") {
		e.Fatalf("found %v, want that garbage is refused", err)
	}
	// Several make it at the same time: all get one name.
	names := make([]string, 4)
	e.parallel(len(names), func(i int) error {
		s, err := metastore.New(e.ctx, e.engine.New(e), metastore.Options{Chroot: e.root, Group: "race"})
		if err != nil {
			return err
		}
		names[i] = s.Cluster()
		return s.Close()
	})
	if slices.Min(names) != slices.Max(names) {
		e.Fatalf("found %q", names)
	}
}

// The tree is wiped below a store that is in use: it says so, and does nothing more.
func otherCluster(e *env) {
	r := newReports()
	s := e.open(e.engine.New(e), metastore.Options{Report: r.report})
	e.put(s, "a", 1)
	raw := e.client()
	e.commit(raw, metastore.Op{Path: e.path("g"), Do: metastore.DeleteTree})
	r.await(e, metastore.ErrWrongCluster.Error())
	e.is("Put", s.Put(e.ctx, "a", 1), metastore.ErrWrongCluster)
	_, err := s.Get(e.ctx, "a")
	e.is("Get", err, metastore.ErrWrongCluster)
	_, err = s.Enqueue(e.ctx, "q", 1)
	e.is("Enqueue", err, metastore.ErrWrongCluster)
}

func storeCommit(e *env) {
	s := e.store()
	value := func(v any) []byte {
		raw, err := s.Encode(v)
		if err != nil {
			e.Fatal(err)
		}
		return raw
	}
	ops := []metastore.Op{{Path: "a", Do: metastore.Create, Value: value(1)},
		{Path: "b/c", Do: metastore.Set, Value: value(2)}}
	e.check("Commit", s.Commit(e.ctx, []metastore.Cond{{Path: "x", Is: metastore.Missing}}, ops))
	e.has(s, "a", int64(1))
	e.has(s, "b/c", int64(2))
	e.isConflict("again", s.Commit(e.ctx, nil, ops), "a")
	v := e.has(s, "b/c", int64(2))
	e.put(s, "b/c", 3)
	at := []metastore.Cond{{Path: "b/c", Is: metastore.At, Version: v.Version}}
	e.isConflict("an old version", s.Commit(e.ctx, at, nil), "b/c")
	for _, bad := range []metastore.Op{{Path: "..", Do: metastore.Delete}, {Path: "", Do: metastore.DeleteTree},
		{Path: ".disco", Do: metastore.Delete}, {Path: "a", Do: metastore.Set, Value: []byte("no tag")},
		{Path: "a", Do: metastore.Set}} {
		if err := s.Commit(e.ctx, nil, []metastore.Op{{Path: "b", Do: metastore.Delete}, bad}); err == nil {
			e.Errorf("%+v is done", bad)
		}
	}
	if err := s.Commit(e.ctx, []metastore.Cond{{Path: "../x", Is: metastore.Missing}}, nil); err == nil {
		e.Error("a condition leaves the group")
	}
}
