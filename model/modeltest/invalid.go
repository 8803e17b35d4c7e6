// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// Load reads the text of a scenario file with a kind.
func Load(kind scenario.Kind, name, text string, opt scenario.Options) (scenario.Scenario, error) {
	doc, err := scenario.Parse(name, []byte(text))
	if err != nil {
		return nil, err
	}
	return kind.Load(kind.Attach(doc, nil), opt)
}

// MustLoad is Load of a text that must be good.
func MustLoad(t testing.TB, kind scenario.Kind, text string) scenario.Scenario {
	t.Helper()
	s, err := Load(kind, "test.yml", text, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Invalid holds every *.yml of a folder against the *.txt of the same name: each file
// breaks one rule, named in its first line, and must be wrong in one way, with line,
// field, what was found and what is wanted. update writes the texts anew, to be
// reviewed as a diff. It returns how many files there were.
func Invalid(t *testing.T, kind scenario.Kind, folder string, update bool) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkInvalid(t, kind, file, string(text), update)
		})
	}
	return len(files)
}

func checkInvalid(t *testing.T, kind scenario.Kind, file, text string, update bool) {
	if !strings.HasPrefix(text, "# Rule: ") {
		t.Error("the first line doesn't name the rule: # Rule: …")
	}
	_, err := Load(kind, filepath.Base(file), text, scenario.Options{})
	var problems scenario.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("the error is %v, want scenario.Problems", err)
	}
	if len(problems) != 1 {
		t.Errorf("%d problems, want 1:\n%v", len(problems), problems)
	}
	for _, p := range problems {
		if p.Line == 0 || p.Field == "" || p.Found == "" || p.Want == "" {
			t.Errorf("problem %+v lacks its line, its field, what was found or what is wanted", p)
		}
	}
	Golden(t, strings.TrimSuffix(file, ".yml")+".txt", err.Error()+"\n", update)
}

// Golden compares a text with a file, which update writes anew.
func Golden(t testing.TB, file, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write it with -update", err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Text compares what results write for people with a golden file, which update writes anew.
func Text(t testing.TB, file string, r interface{ WriteText(w io.Writer) error }, update bool) {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	Golden(t, file, b.String(), update)
}
