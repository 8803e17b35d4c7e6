// SPDX-License-Identifier: Apache-2.0

package newmodule

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The modules need what examples/mymodel needs, whose go.mod and go.sum are kept tidy.
func TestRequirements(t *testing.T) {
	files := Module{Name: "mymodel", From: "queue", Version: "v0.0.0"}.files()
	for _, name := range []string{"go.mod", "go.sum"} {
		want, err := os.ReadFile("../../examples/mymodel/" + name)
		if err != nil {
			t.Fatal(err)
		}
		whole, _, _ := strings.Cut(string(want), "\nreplace ")
		if files[name] != whole {
			t.Errorf("%s:\n%s\nexamples/mymodel has\n%s", name, files[name], whole)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "till", "call-centre", "m2", "v2x"} {
		if !GoodName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	long := strings.Repeat("a", 64)
	for _, name := range []string{"", "-a", "a-", "A", "2m", "a/b", "..", "a b", "v2", "ä", "a.b", long} {
		if GoodName(name) {
			t.Errorf("%q is allowed", name)
		}
	}
}

// What is there stays, and a module that can't be written leaves nothing.
func TestWholeOrNotAtAll(t *testing.T) {
	t.Chdir(t.TempDir())
	m := Module{Name: "till", From: "queue", Version: "v0.0.0"}
	if err := Write(m); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("till/main.go")
	if err != nil || strings.Contains(string(before), "@") {
		t.Errorf("%v: %s", err, before)
	}
	if err := Write(m); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if err := os.Mkdir("new", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("new", "till"); !errors.Is(err, fs.ErrExist) { // it came while the files were written
		t.Errorf("renamed to what exists: %v", err)
	}
	if err := os.Mkdir("gone", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir("gone")
	if err := os.Remove("../gone"); err != nil {
		t.Fatal(err)
	}
	if err := Write(m); err == nil {
		t.Error("written into a folder that is gone")
	}
	t.Chdir("..")
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 2 {
		t.Errorf("%v %v, want till and new", err, entries)
	}
}
