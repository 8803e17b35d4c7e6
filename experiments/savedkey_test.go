// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A saved key is its process' own, is used again when that had no answer, and isn't when it had.
func TestSavedKeys(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	save := func(what string) *savedKey {
		t.Helper()
		k, err := saveKey(what)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	done := func(k *savedKey, answered bool) {
		t.Helper()
		if err := k.done(answered); err != nil {
			t.Fatal(err)
		}
	}
	a, b := save("x"), save("x") // at the same time: two experiments
	other := save("y")
	if a.key == b.key || a.key == other.key || a.again || b.again {
		t.Errorf("found %+v, %+v, %+v", a, b, other)
	}
	done(a, false)
	c := save("x")
	if c.key != a.key || !c.again {
		t.Errorf("found %+v, want the key %s", c, a.key)
	}
	done(c, true)
	if d := save("x"); d.key == a.key || d.again {
		t.Errorf("found %+v, whose submission had an answer", d)
	}
	torn := filepath.Join(os.Getenv("XDG_STATE_HOME"), "disco", "submissions")
	files, err := os.ReadDir(torn)
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v, %v", files, err)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range 40 { // each has its own, whoever comes first
		all.Go(func() {
			k, err := saveKey("many")
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[k.key] {
				t.Errorf("found %+v, %v", k, err)
				return
			}
			seen[k.key] = true
			if err := k.done(true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
