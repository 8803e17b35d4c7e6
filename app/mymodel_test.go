// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// examples/mymodel is a module of its own, so the tests of this one don't see it: here it
// is built, vetted, tested and run the way a person would.
func TestMyModel(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	binary := filepath.Join(t.TempDir(), "mymodel")
	goTool(t, "vet", "./...")
	goTool(t, "test", "./...")
	goTool(t, "build", "-buildvcs=false", "-o", binary, ".")
	cmd := exec.Command(binary, "run", "office.yml", "--workers", "2")
	cmd.Dir = "../examples/mymodel"
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`person/knew ×1000 +1,000 `).Match(out) {
		t.Errorf("mymodel run: %v\n%s", err, out)
	}
}

// goTool runs the go command in examples/mymodel, with nothing but what its go.mod and
// go.sum say.
func goTool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = "../examples/mymodel"
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s in examples/mymodel: %v: if it is about go.mod or go.sum, run `go mod tidy` there\n%s",
			strings.Join(args, " "), err, out)
	}
}
