// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDocs: the first scenario of docs/scenario-service.md is examples/mini.yml, and
// the page names every field of the schema.
func TestDocs(t *testing.T) {
	page := readText(t, "../../docs/scenario-service.md")
	_, rest, ok1 := strings.Cut(page, "```yaml\n")
	block, _, ok2 := strings.Cut(rest, "```\n")
	if !ok1 || !ok2 {
		t.Fatal("the page has no block of YAML")
	}
	if got, want := mustLoad(t, block), mustLoad(t, readText(t, "../../examples/mini.yml")); !reflect.DeepEqual(got,
		want) {
		t.Errorf("the page's scenario is\n%+v\nand examples/mini.yml\n%+v", got, want)
	}
	// A field that doesn't exist makes the reader list those that do.
	names := make(map[string]bool)
	wrong, _ := filepath.Glob("testdata/invalid/*unknown*.txt")
	for _, file := range wrong {
		_, list, _ := strings.Cut(strings.TrimSpace(readText(t, file)), "want only the fields ")
		list, _, _ = strings.Cut(list, ";")
		for _, name := range strings.Split(list, ", ") {
			names[name] = true
		}
	}
	if len(names) < 30 {
		t.Errorf("the messages list only %d fields: %v", len(names), names)
	}
	for name := range names {
		if !strings.Contains(page, name) {
			t.Errorf("the page doesn't say what %s is", name)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
