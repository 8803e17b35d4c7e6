// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expand says which fields of a map become keys of their own below it, instead of being stored whole. For a field that
// it names, each member of the field's map is a key. With nil, members are stored whole; with a further Expand, each
// member is a map itself, whose fields are keys, and which that one holds for:
//
//	PutTree("", {"r": {"r1": {"a": {"x": 1}}}}, {"r": {"a": nil}})    r/r1/a/x = 1
//	PutTree("", {"r": {"r1": {"a": {"x": 1}}}}, {"r": nil})           r/r1 = {"a": {"x": 1}}
//	PutTree("", {"r": {"r1": {"a": {"x": 1}}}}, nil)                  r = {"r1": {"a": {"x": 1}}}
//
// What isn't a map with text keys, or a struct, is stored whole where one could be. The name "" stands for the value of
// the key itself.
type Expand map[string]Expand

// PutTree stores each field of a map below a key, as expand says. With drop, what was below the key and isn't in the
// map is deleted. Up to [MaxOps] keys with up to [MaxValue] bytes are written in one commit; more aren't, in the order
// of their names, and if that ends with an error a part of them may have been.
func (s *Store) PutTree(ctx context.Context, key string, fields map[string]any, expand Expand, drop bool) error {
	err := s.putTree(ctx, key, fields, expand, drop)
	if err != nil {
		return fmt.Errorf("metastore: put tree %q: %w", key, err)
	}
	return nil
}

func (s *Store) putTree(ctx context.Context, key string, fields map[string]any, expand Expand, drop bool) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	w := treeWriter{s: s, raw: map[string][]byte{}}
	if err := w.fields(strings.TrimSuffix(path, "/"), fields, expand); err != nil {
		return err
	}
	if own, ok := w.raw[s.root]; ok && own[0] != tagDirectory {
		return errors.New("the group itself can't be written")
	}
	var ops []Op
	if drop {
		leaves, err := s.backend.Tree(ctx, path)
		if err != nil {
			return err
		}
		for _, leaf := range leaves {
			raw, stays := w.raw[leaf.Path]
			isDirectory := string(leaf.Value) == string(tagDirectory)
			switch {
			case stays && raw[0] == tagDirectory && !isDirectory: // it was a value
				ops = append(ops, Op{Path: leaf.Path, Do: Set, Value: raw})
			case !stays && !(leaf.Path == path && isDirectory) && !s.isOwn(leaf.Path):
				ops = append(ops, Op{Path: leaf.Path, Do: Delete})
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(w.raw)) {
		raw := w.raw[path]
		if raw[0] != tagDirectory {
			ops = append(ops, Op{Path: path, Do: Set, Value: raw})
		} else if err := s.ensure(ctx, path); err != nil {
			return err
		}
	}
	return s.inBatches(ctx, ops)
}

// inBatches commits as many operations at once as there may be.
func (s *Store) inBatches(ctx context.Context, ops []Op) error {
	for len(ops) > 0 {
		n, size := 0, 0
		for n < len(ops) && n < MaxOps && (n == 0 || size+len(ops[n].Value) <= MaxValue) {
			size += len(ops[n].Value)
			n++
		}
		if err := s.commit(ctx, nil, ops[:n]); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// treeWriter collects what a tree is written as.
type treeWriter struct {
	s   *Store
	raw map[string][]byte // by path
}

// fields puts each field of a map below path; expand says how.
func (w *treeWriter) fields(path string, fields map[string]any, expand Expand) error {
	if len(fields) == 0 {
		w.raw[path] = []byte{tagDirectory} // otherwise it would be none
	}
	for name, value := range fields {
		inner, named := expand[name]
		below, err := w.below(path, name)
		if err != nil {
			return err
		}
		if members, isMap := w.asMap(value, named && name != ""); isMap {
			err = w.members(below, members, inner)
		} else {
			err = w.whole(below, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// members puts each member of a field that is expanded below its path.
func (w *treeWriter) members(path string, members map[string]any, inner Expand) error {
	if len(members) == 0 {
		w.raw[path] = []byte{tagDirectory}
	}
	for name, value := range members {
		below, err := w.below(path, name)
		if err != nil {
			return err
		}
		if fields, isMap := w.asMap(value, inner != nil && name != ""); isMap {
			err = w.fields(below, fields, inner)
		} else {
			err = w.whole(below, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asMap is a value that is to be expanded, if it is a map with text keys, or a struct, as the codec writes it.
func (w *treeWriter) asMap(value any, expand bool) (fields map[string]any, is bool) {
	if !expand {
		return nil, false
	}
	switch v := value.(type) {
	case map[string]any:
		return v, true
	case nil, bool, string, int, int64, float64, []any:
		return nil, false
	}
	var free any
	data, err := w.s.codec.Encode(value)
	if err == nil {
		err = w.s.codec.Decode(data, &free)
	}
	fields, is = free.(map[string]any)
	return fields, is && err == nil
}

// below is the path of a name below another; that of "" is the other itself.
func (w *treeWriter) below(path, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("the name %q has a slash: a field is one name", name)
	}
	if name == "" {
		return path, nil
	}
	if path == w.s.root && name == identityName {
		return "", fmt.Errorf("the name %q is the store's own", name)
	}
	return Path(path, name)
}

// whole encodes a value.
func (w *treeWriter) whole(path string, value any) error {
	raw, err := w.s.Encode(value)
	if err != nil {
		return fmt.Errorf("key %q: %w", w.s.key(path), err)
	}
	w.raw[path] = raw
	return nil
}

// GetTree reads what is below a key as a map, the inverse of [Store.PutTree]. Keys that expand names are read as maps
// of what is below them; a key with a value of its own, too, has that under "". Keys that it doesn't name are read as
// the value they hold; those that hold none, with everything below. ErrNoNode.
//
// It isn't one moment's picture; [Backend.Tree].
func (s *Store) GetTree(ctx context.Context, key string, expand Expand) (map[string]any, error) {
	fields, err := s.getTree(ctx, key, expand)
	if err != nil {
		return nil, fmt.Errorf("metastore: get tree %q: %w", key, err)
	}
	return fields, nil
}

func (s *Store) getTree(ctx context.Context, key string, expand Expand) (map[string]any, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	leaves, err := s.backend.Tree(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(leaves) == 0 {
		return nil, ErrNoNode
	}
	top := &branch{}
	base := strings.TrimSuffix(path, "/")
	for _, leaf := range leaves {
		rest := strings.TrimPrefix(strings.TrimPrefix(leaf.Path, base), "/")
		if s.isOwn(leaf.Path) {
			continue
		}
		if err := top.add(rest, s.value(s.key(leaf.Path), leaf.Node)); err != nil {
			return nil, err
		}
	}
	return top.fields(expand), nil
}

// branch is a part of a tree that was read.
type branch struct {
	value any // if has
	has   bool
	below map[string]*branch
}

// add puts a value at a path below the branch.
func (b *branch) add(path string, v Value) (err error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			break // the branch itself
		}
		if b.below == nil {
			b.below = map[string]*branch{}
		}
		if b.below[name] == nil {
			b.below[name] = &branch{}
		}
		b = b.below[name]
	}
	if b.has = v.HasValue(); b.has {
		b.value, err = v.Any()
	}
	return err
}

// fields is the inverse of treeWriter.fields.
func (b *branch) fields(expand Expand) map[string]any {
	return b.named(func(name string, c *branch) any {
		inner, named := expand[name]
		switch {
		case !named:
			return c.whole()
		case c.has && len(c.below) == 0:
			return c.value
		}
		return c.members(inner)
	})
}

// members is the inverse of treeWriter.members.
func (b *branch) members(inner Expand) map[string]any {
	return b.named(func(_ string, c *branch) any {
		if inner == nil || c.has && len(c.below) == 0 {
			return c.whole()
		}
		return c.fields(inner)
	})
}

// whole is the value, or everything below.
func (b *branch) whole() any {
	if b.has {
		return b.value
	}
	return b.everything()
}

// everything is the value where there is nothing below.
func (b *branch) everything() any {
	if b.has && len(b.below) == 0 {
		return b.value
	}
	return b.named(func(_ string, c *branch) any { return c.everything() })
}

// named makes a map of the branch: its own value under "", and each one below as f reads it.
func (b *branch) named(f func(name string, c *branch) any) map[string]any {
	all := make(map[string]any, len(b.below)+1)
	if b.has {
		all[""] = b.value
	}
	for name, c := range b.below {
		all[name] = f(name, c)
	}
	return all
}
