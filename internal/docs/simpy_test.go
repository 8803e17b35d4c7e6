// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSimPyLines: the examples of examples/simpy have as many lines as its page says, at most 1.3 times those of the
// originals.
func TestSimPyLines(t *testing.T) {
	folder := "../../examples/simpy"
	page, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|.*\\| ([0-9]+) \\| ([0-9]+) \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	programs, err := filepath.Glob(filepath.Join(folder, "*", "main.go"))
	if err != nil || len(rows) != 7 || len(programs) != len(rows) {
		t.Fatalf("%v: %d rows for %d programs, want 7", err, len(rows), len(programs))
	}
	for _, row := range rows {
		stated, _ := strconv.Atoi(row[2])
		original, _ := strconv.Atoi(row[3])
		text, err := os.ReadFile(filepath.Join(folder, row[1], "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				count++
			}
		}
		if count != stated || float64(count) > 1.3*float64(original) {
			t.Errorf("%s has %d lines; its page says %d, and at most 1.3 × %d are wanted", row[1], count, stated,
				original)
		}
	}
}
