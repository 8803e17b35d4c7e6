// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// treeCases are about PutTree and GetTree.
var treeCases = []testCase{
	{"Tree/SpecificationExamples", 0, specificationExamples},
	{"Tree/Whole", 0, treeWhole},
	{"Tree/Mixed", 0, treeMixed},
	{"Tree/Empty", 0, treeEmpty},
	{"Tree/Drop", 0, treeDrop},
	{"Tree/Types", 0, treeTypes},
	{"Tree/Large", 0, treeLarge},
	{"Tree/Refused", 0, treeRefused},
	{"Tree/RoundTrips", 0, treeRoundTrips},
}

// object is short for the maps of trees.
type object = map[string]any

// putTree must succeed.
func (e *env) putTree(s *metastore.Store, key string, fields object, expand metastore.Expand, drop bool) {
	e.Helper()
	if err := s.PutTree(e.ctx, key, fields, expand, drop); err != nil {
		e.Fatal(err)
	}
}

// hasTree checks what is read.
func (e *env) hasTree(s *metastore.Store, key string, expand metastore.Expand, want object) {
	e.Helper()
	got, err := s.GetTree(e.ctx, key, expand)
	if err != nil || !reflect.DeepEqual(got, want) {
		e.Fatalf("tree %q, expand %v: found %v, %v; want %v", key, expand, got, err, want)
	}
}

// The two examples of the specification, below a chroot and a group, literally.
func specificationExamples(e *env) {
	s := e.store()
	raw := e.client()
	nested := metastore.Expand{"replications": {"assignments": nil}}
	e.putTree(s, "", object{"replications": object{"r1": object{"assignments": object{"a": 1}}}}, nested, false)
	e.has(s, "replications/r1/assignments/a", int64(1))
	if n := e.get(raw, "g/replications/r1/assignments/a"); string(n.Value) != "j1" {
		e.Fatalf("found %q", n.Value)
	}
	e.hasTree(s, "", nested, object{"replications": object{"r1": object{"assignments": object{"a": int64(1)}}}})

	shallow := metastore.Expand{"replications": nil}
	e.putTree(s, "shallow", object{"replications": object{"assignments": object{"a": 1}}}, shallow, false)
	e.has(s, "shallow/replications/assignments", object{"a": int64(1)})
	e.members(s, "shallow/replications/assignments")
	if n := e.get(raw, "g/shallow/replications/assignments"); string(n.Value) != `j{"a":1}` {
		e.Fatalf("found %q", n.Value)
	}
	e.hasTree(s, "shallow", shallow, object{"replications": object{"assignments": object{"a": int64(1)}}})
}

func treeWhole(e *env) {
	s := e.store()
	in := object{"a": 1, "b": object{"c": object{"d": 2}}, "l": []any{1, 2}}
	want := object{"a": int64(1), "b": object{"c": object{"d": int64(2)}}, "l": []any{int64(1), int64(2)}}
	e.putTree(s, "w", in, nil, false) // each field is one key
	e.members(s, "w", "a", "b", "l")
	e.members(s, "w/b")
	e.hasTree(s, "w", nil, want)
	e.hasTree(s, "w", metastore.Expand{"b": nil}, want) // a map that was stored whole is read as it is
	e.putTree(s, "x", in, metastore.Expand{"b": nil, "a": nil, "none": nil}, false)
	e.has(s, "x/b/c", object{"d": int64(2)})
	e.has(s, "x/a", int64(1)) // a scalar where a map could be
	e.hasTree(s, "x", nil, want)
	if _, err := s.GetTree(e.ctx, "none", nil); err == nil {
		e.Fatal("nothing is a tree")
	}
}

// Scalars, maps, and keys that hold both.
func treeMixed(e *env) {
	s := e.store()
	e.put(s, "m/a", "scalar")
	expand := metastore.Expand{"a": nil}
	e.putTree(s, "m", object{"a": object{"x": 1}}, expand, false)
	e.hasTree(s, "m", expand, object{"a": object{"": "scalar", "x": int64(1)}})
	e.hasTree(s, "m", nil, object{"a": "scalar"}) // not named: its value
	e.putTree(s, "m", object{"a": object{"": "other", "y": 2}}, expand, false)
	e.hasTree(s, "m", expand, object{"a": object{"": "other", "x": int64(1), "y": int64(2)}})
	e.putTree(s, "m", object{"a": 3, "": "top"}, expand, false)
	e.has(s, "m", "top")
	e.hasTree(s, "m", expand, object{"": "top", "a": object{"": int64(3), "x": int64(1), "y": int64(2)}})
	e.check("Delete", s.Delete(e.ctx, "m/a"))
	e.hasTree(s, "m", expand, object{"": "top", "a": object{"x": int64(1), "y": int64(2)}})
	e.hasTree(s, "", nil, object{"m": "top"})
	deep := metastore.Expand{"r": {"f": nil}}
	e.putTree(s, "d", object{"r": object{"r1": object{"f": object{"x": 1}, "g": 2}, "r2": "scalar"}}, deep, false)
	e.has(s, "d/r/r1/g", int64(2))
	e.has(s, "d/r/r2", "scalar")
	e.hasTree(s, "d", deep,
		object{"r": object{"r1": object{"f": object{"x": int64(1)}, "g": int64(2)}, "r2": "scalar"}})
	e.put(s, "d/r/r1", "both")
	all := object{"r": object{"r1": object{"": "both", "f": object{"x": int64(1)}, "g": int64(2)}, "r2": "scalar"}}
	e.hasTree(s, "d", deep, all)
	e.hasTree(s, "d", nil, all) // r holds no value: everything below it
}

func treeEmpty(e *env) {
	s := e.store()
	expand := metastore.Expand{"a": nil}
	in := object{"a": object{}, "b": object{}, "n": nil}
	e.putTree(s, "t", in, expand, false)
	e.hasTree(s, "t", expand, in)
	e.putTree(s, "u", object{}, nil, false)
	e.hasTree(s, "u", nil, object{})
	e.putTree(s, "t", object{"a": object{"x": 1}}, expand, false)
	e.putTree(s, "t", object{"a": object{}}, expand, false) // without drop what is there stays
	e.hasTree(s, "t", expand, object{"a": object{"x": int64(1)}, "b": object{}, "n": nil})
	e.putTree(s, "", object{}, nil, false)
}

func treeDrop(e *env) {
	s := e.open(e.engine.New(e), metastore.Options{Base: []string{"t"}})
	expand := metastore.Expand{"a": {"b": nil}}
	e.putTree(s, "t", object{"a": object{"1": object{"b": object{"x": 1, "y": 2}}}, "c": 3}, expand, true)
	e.put(s, "tt", "not below")
	e.putTree(s, "t", object{"a": object{"1": object{"b": object{"y": 4}}, "2": 5}}, expand, true)
	want := object{"a": object{"1": object{"b": object{"y": int64(4)}}, "2": int64(5)}}
	e.hasTree(s, "t", expand, want)
	e.contains(s, "t/c", false)
	e.has(s, "tt", "not below")
	e.putTree(s, "t", object{}, nil, true)
	e.hasTree(s, "t", nil, object{}) // the directory stays
	e.put(s, "t", "value")
	e.putTree(s, "t", object{"z": 1}, nil, true) // a value doesn't
	e.hasTree(s, "t", metastore.Expand{}, object{"z": int64(1)})
	e.putTree(s, "", object{"only": 1}, nil, true)
	e.hasTree(s, "", nil, object{"only": int64(1)})
	if s.Cluster() != e.store().Cluster() {
		e.Fatal("dropping all keys has dropped the store's own")
	}
}

// Structs and maps of other types are expanded as the codec writes them.
func treeTypes(e *env) {
	for _, codec := range []metastore.Codec{metastore.JSON, metastore.CBOR} {
		s := e.open(e.engine.New(e), metastore.Options{Codec: codec})
		in := object{"w": map[string]worker{"a": {Host: "h", Slots: []int{1}}}, "n": map[string]int{"x": 1},
			"l": []int{1}}
		e.putTree(s, "t", in, metastore.Expand{"w": {"slots": nil}, "n": nil, "l": nil}, true)
		e.has(s, "t/w/a/host", "h")
		e.has(s, "t/w/a/slots", []any{int64(1)})
		e.has(s, "t/n/x", int64(1))
		e.has(s, "t/l", []any{int64(1)})
	}
}

// More keys than a commit has room for, and more bytes.
func treeLarge(e *env) {
	s := e.store()
	in, want := object{}, object{}
	for i := range 2*metastore.MaxOps + 50 {
		in[fmt.Sprint("k", i)], want[fmt.Sprint("k", i)] = i, int64(i)
	}
	e.putTree(s, "t", object{"f": in}, metastore.Expand{"f": nil}, true)
	e.hasTree(s, "t", nil, object{"f": want})
	e.putTree(s, "t", object{"f": 1}, nil, true)
	e.hasTree(s, "t", nil, object{"f": int64(1)})
	e.members(s, "t/f")
	large := strings.Repeat("x", metastore.MaxEncoded-2)
	in = object{"a": large, "b": large, "c": "small"}
	e.putTree(s, "t", in, nil, true)
	e.hasTree(s, "t", nil, in)
	e.is("a value that is too large", s.PutTree(e.ctx, "t", object{"a": 1, "b": large + "x"}, nil, false),
		metastore.ErrTooLarge)
	e.has(s, "t/a", large) // nothing has been written
}

func treeRefused(e *env) {
	s := e.store()
	for _, in := range []object{{"a/b": 1}, {"..": 1}, {"a": object{"x/y": 1}}, {"a": object{"\x00": 1}}, {".disco": 1},
		{"": 1}, {"a": make(chan int)}} {
		if err := s.PutTree(e.ctx, "", in, metastore.Expand{"a": nil}, true); err == nil {
			e.Errorf("%v is stored", in)
		}
	}
	if err := s.PutTree(e.ctx, "../x", object{"a": 1}, nil, false); err == nil {
		e.Error("a tree leaves its group")
	}
	if _, err := s.GetTree(e.ctx, ".disco", nil); err == nil {
		e.Error("the store's own key is read")
	}
	if names, err := s.Members(e.ctx, ""); err != nil || len(names) > 0 {
		e.Errorf("something was stored: %q, %v", names, err)
	}
}

// randomValue is any value that a tree may have, with maps down to a depth.
func randomValue(r *rand.Rand, depth int) any {
	if depth > 0 && r.IntN(2) == 0 {
		return randomFields(r, depth)
	}
	switch r.IntN(6) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return r.Float64()
	case 3:
		return []any{int64(r.IntN(10)), "x"}
	case 4:
		return fmt.Sprint("text", r.IntN(10))
	}
	return r.Int64()
}

func randomFields(r *rand.Rand, depth int) object {
	all := object{}
	for range r.IntN(4) {
		all[string(rune('a'+r.IntN(5)))] = randomValue(r, depth-1)
	}
	return all
}

func randomExpand(r *rand.Rand, depth int) metastore.Expand {
	if depth == 0 || r.IntN(3) == 0 {
		return nil
	}
	all := metastore.Expand{}
	for range r.IntN(5) {
		all[string(rune('a'+r.IntN(5)))] = randomExpand(r, depth-1)
	}
	return all
}

// Whatever is stored with an expand is read again with it, and as well without any.
func treeRoundTrips(e *env) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, codec := range []metastore.Codec{metastore.JSON, metastore.CBOR} {
		s := e.open(e.engine.New(e), metastore.Options{Codec: codec})
		for i := range 40 {
			in, expand := randomFields(r, 5), randomExpand(r, 3)
			e.putTree(s, "t", in, expand, true)
			for _, with := range []metastore.Expand{expand, nil} {
				got, err := s.GetTree(e.ctx, "t", with)
				if err != nil || !reflect.DeepEqual(got, in) {
					e.Fatalf("seed %d, tree %d, expand %v, read with %v:\nfound %v, %v\nwant  %v",
						seed, i, expand, with, got, err, in)
				}
			}
			if names, err := s.Members(e.ctx, "t"); err != nil || !slices.Equal(names, slices.Sorted(maps.Keys(in))) {
				e.Fatalf("seed %d, tree %d: found %q, %v, want the names of %v", seed, i, names, err, in)
			}
		}
	}
}
