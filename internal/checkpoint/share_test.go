// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
)

// Of many parts of a run memory has the scenario's files once, and what chunks are read with.
func TestShare(t *testing.T) {
	const parts, size = 40, 4 << 20
	run := *testRun()
	run.Attached = []Attached{attached(size)}
	dir := t.TempDir()
	var repos []*Repo
	for i := range parts {
		one := run
		one.ID = ID{byte(i), byte(i >> 8), 1}
		if i == parts-1 {
			one.Text = []byte("model: another")
		}
		blobs := NewDir(filepath.Join(dir, fmt.Sprint(i)))
		made, err := Create(t.Context(), blobs, one)
		if err == nil {
			err = made.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), blobs)
		if err != nil {
			t.Fatal(err)
		}
		if repos = append(repos, r); i > 0 {
			r.Share(repos[0])
		}
	}
	runtime.GC()
	var taken runtime.MemStats
	runtime.ReadMemStats(&taken)
	if taken.HeapAlloc > 10*size {
		t.Errorf("found %d bytes for %d parts with a file of %d", taken.HeapAlloc, parts, size)
	}
	last := repos[parts-1]
	if r := repos[7].Run(); r.ID != (ID{7, 0, 1}) || !bytes.Equal(r.Text, run.Text) || repos[7].means != last.means {
		t.Errorf("found %v, %s", r.ID, r.Text)
	}
	if !bytes.Equal(last.Run().Text, []byte("model: another")) {
		t.Errorf("found %s", last.Run().Text)
	}
}
