// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/submission"
)

// TestSubmission: what is submitted has the data of the database with it, for each point of a sweep; replications that
// are simulated of that in other folders, without the database, are put together to the results of a run here.
func TestSubmission(t *testing.T) {
	for name, b := range bases(t) {
		t.Run(name, func(t *testing.T) {
			fillLevels(t, b)
			file, into := write(t, "supplied.yml", supplied), t.TempDir()
			status, _, errs := runs(t, submission.Command, "--"+submission.Into, into, "--db", b.url,
				"--replications", "2", "--sweep", "horizon=20,30", file)
			s, err := submission.Read(into)
			if status != 0 || err != nil {
				t.Fatal(status, errs, err)
			}
			if len(s.Files) != 1 || !strings.HasPrefix(s.Files[0], "graph-files/") ||
				!strings.Contains(strings.Join(s.Args, " "), "--graph-files graph-files") {
				t.Fatalf("found %q, %q", s.Files, s.Args)
			}
			t.Setenv("DISCO_DB", "")
			want := hashOf(t, file, "--db", b.url, "--replications", "2")
			var parts []string
			for _, one := range []string{"0", "1"} {
				folder := t.TempDir()
				atOther(t, folder, s)
				t.Chdir(folder)
				part := filepath.Join(folder, "place")
				hashOf(t, append([]string{"supplied.yml", "--only", one, "--replications", "2", "--checkpoint-to",
					part}, s.Args...)...)
				parts = append(parts, part)
			}
			status, out, errs := runs(t, append([]string{"merge", "--json", "-"}, parts...)...)
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("merge: %d %s %s, want the hash %s", status, errs, out, want)
			}
			if err := os.RemoveAll("graph-files"); err != nil {
				t.Fatal(err)
			}
			status, _, errs = runs(t, append([]string{"run", "supplied.yml"}, s.Args...)...)
			if status != 2 || !strings.Contains(errs, "--graph-files: ") {
				t.Errorf("without the files: %d %s", status, errs)
			}
		})
	}
}

// atOther puts what was submitted into a folder, as an agent does.
func atOther(t *testing.T, folder string, s *submission.Submission) {
	t.Helper()
	err := os.WriteFile(filepath.Join(folder, filepath.Base(s.File)), s.Text, 0o600)
	for i, name := range s.Files {
		path := filepath.Join(folder, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, s.Attached[i], 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
