// SPDX-License-Identifier: Apache-2.0

package outdir

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A run that writes while it goes on takes the result of an earlier run away, says how far it is, and leaves no moment
// without a result once there was one; what a later run that doesn't leaves has no trace of that.
func TestLive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	write := func(d *Dir, killed func() bool) error {
		w := d.Begin("1")
		w.killed = killed
		defer w.Abort()
		return w.Result(func(to io.Writer) error {
			_, err := io.WriteString(to, `{"results": {"a": 1}}`)
			return err
		})
	}
	begin := func() *Dir {
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := write(begin(), nil); err != nil {
		t.Fatal(err)
	}
	d := begin()
	if err := d.Live([]byte("{}\n")); err != nil || there(ResultFile) || !there(LiveFile) {
		t.Errorf("%v; result %v", err, there(ResultFile))
	}
	for range 2 {
		if err := write(d, nil); err != nil {
			t.Fatal(err)
		}
		if err := d.Live([]byte("{}\n")); err != nil || !there(ResultFile) {
			t.Errorf("%v; result %v", err, there(ResultFile))
		}
	}
	steps := 0
	if err := write(d, func() bool { steps++; return !there(ResultFile) }); err != nil || steps < 3 {
		t.Errorf("%v: there was no result at one of %d steps", err, steps)
	}
	if err := write(begin(), nil); err != nil || there(LiveFile) || !there(ResultFile) {
		t.Errorf("%v; %s stays: %v", err, LiveFile, there(LiveFile))
	}
}
