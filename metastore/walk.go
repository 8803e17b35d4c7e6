// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"fmt"
	"slices"
)

// Key is the key that was read.
func (v Value) Key() string { return v.key }

// Walk returns the values of a key and of everything below it, by key; directories are among them, as values that hold
// none. Nothing there is no error. It isn't one moment's picture; [Backend.Tree].
func (s *Store) Walk(ctx context.Context, key string) ([]Value, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, fmt.Errorf("metastore: walk %q: %w", key, err)
	}
	leaves, err := s.backend.Tree(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("metastore: walk %q: %w", key, err)
	}
	var all []Value
	for _, leaf := range leaves {
		name := s.key(leaf.Path)
		if name != "" && !s.isOwn(leaf.Path) && len(s.visible("", []string{name})) > 0 {
			all = append(all, s.value(name, leaf.Node))
		}
	}
	return slices.Clip(all), nil
}
