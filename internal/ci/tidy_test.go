// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script fails for a module that isn't tidy, passes one that is, and skips one whose
// modules can't be had.
func TestTidyScript(t *testing.T) {
	const head = "module canary\n\ngo 1.26\n\nreplace example.org/other => ./other\n\n"
	const other = "require example.org/other v0.0.0"
	tidy := head + other + "\n"
	for _, c := range []struct {
		name, mod, code string
		want            string
		ok              bool
	}{
		{"tidy", tidy, `import _ "example.org/other"`, "ok", true},
		{"marked as indirect", head + other + " // indirect\n", `import _ "example.org/other"`, "is not tidy", false},
		{"not used", tidy, "", "is not tidy", false},
		{"not there", tidy, `import _ "example.org/absent"`, "SKIPPED", true},
		{"broken", "module", "", "is not tidy", false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod": c.mod, "canary.go": "package canary\n" + c.code + "\n",
			"other/go.mod": "module example.org/other\n\ngo 1.26\n", "other/other.go": "package other\n",
		} {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("sh", "tidy.sh", dir)
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: ended with %v, want %q and ok to be %v:\n%s", c.name, err, c.want, c.ok, out)
		}
	}
}
