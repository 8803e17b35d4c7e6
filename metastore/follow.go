// SPDX-License-Identifier: Apache-2.0

package metastore

import "fmt"

// Follow is [Store.Watch] for a key that others make and delete: it isn't made, and after a deletion f is called
// on, with values that don't exist, until it returns false. It doesn't wait.
func (s *Store) Follow(key string, f func(v Value, key string) (keep bool)) (*Watch, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, fmt.Errorf("metastore: follow %q: %w", key, err)
	}
	return s.begin(path, key, Data, func(state State) bool {
		if state.Node.Value == nil {
			return f(Value{key: key}, key)
		}
		return f(s.value(key, state.Node), key)
	}), nil
}
