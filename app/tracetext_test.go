// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

const (
	first  = "0\tn0/main\twakeup\n"
	second = "1\tn1/main\tn0/main\t7\t8\t00000000000000ff\n"
	third  = "2\tn0/main\tn1/main\t3\t8\t00000000000000fe\n"
)

func TestFirstOther(t *testing.T) {
	changed := strings.NewReplacer("00ff", "00fd", "00fe", "00fd", "n0/main\twakeup", "n2/main\twakeup")
	for _, c := range []struct {
		name, a, b  string
		left, right string
		shared      int
	}{
		{"equal", first + second + third, first + second + third, "", "", 3},
		{"both empty", "", "", "", "", 0},
		{"first missing", second + third, first + second + third, "", first, 0},
		{"middle missing", first + third, first + second + third, "", second, 1},
		{"last missing", first + second, first + second + third, "", third, 2},
		{"first extra", first + second, second, first, "", 0},
		{"middle extra", first + second + third, first + third, second, "", 1},
		{"last extra", first + second, first, second, "", 1},
		{"all extra", first, "", first, "", 0},
		{"first changed", first + second, changed.Replace(first) + second, first, changed.Replace(first), 0},
		{"middle changed", first + second + third, first + changed.Replace(second) + third, second,
			changed.Replace(second), 1},
		{"last changed", first + third, first + changed.Replace(third), third, changed.Replace(third), 1},
		{"same record of another replication", "# replication 0\n" + first + "# replication 1\n" + first,
			"# replication 0\n" + first + "# replication 2\n" + first, first, "", 1},
		{"more in a replication", "# replication 0\n" + first + third + "# replication 1\n" + first,
			"# replication 0\n" + first + "# replication 1\n" + first, third, "", 1},
	} {
		left, right, shared, err := firstOther(newTraceText("a", strings.NewReader(c.a)),
			newTraceText("b", strings.NewReader(c.b)))
		if err != nil {
			t.Fatal(c.name, err)
		}
		text := func(r *traceRecord) string {
			if r == nil {
				return ""
			}
			return r.text + "\n"
		}
		if text(left) != c.left || text(right) != c.right || shared != c.shared {
			t.Errorf("%s: found %q and %q behind %d records, want %q and %q behind %d", c.name, text(left), text(right),
				shared, c.left, c.right, c.shared)
		}
	}
}

func TestWrongTraceText(t *testing.T) {
	for _, text := range []string{"horizon: 5\n", "x\tn0/main\twakeup\n", "-1\tn0/main\twakeup\n", "NaN\tn0\twakeup\n",
		"1\tn0\tn1\t1\t8\n", "1\tn0\tdid\n", "# replication x\n", "# replication 2\n# replication 1\n",
		strings.Repeat("x", journalLineMax+1)} {
		r, err := newTraceText("a", strings.NewReader(text)).next()
		var u *usageError
		if !errors.As(err, &u) || r != nil {
			t.Errorf("%.40q: found %v and error %v, want a mistake", text, r, err)
		}
	}
}

// makeTraces writes traces of tiny.yml for a script: as they are, and one in which the hash of one record was edited.
func makeTraces(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"out-was.txt"}, {"out-was.txt.gz"}, {"out-was.txt.zst"},
		{"out-two.txt", "--replications", "2"}} {
		run := append([]string{"disco-run", "run", filepath.Join(dir, "tiny.yml"), "--trace",
			filepath.Join(dir, args[0])}, args[1:]...)
		if status := Run(run, strings.NewReader(""), io.Discard, io.Discard, launchtest.Kind()); status != 0 {
			t.Fatalf("%v: exit %d", run, status)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "out-was.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	k := len(lines) / 2
	for strings.HasSuffix(lines[k], "wakeup\n") {
		k++
	}
	without := strings.Join(lines[:k], "") + strings.Join(lines[k+1:], "")
	lines[k] = lines[k][:len(lines[k])-17] + "0123456789abcdef\n"
	for name, text := range map[string]string{"out-edited.txt": strings.Join(lines, ""), "out-without.txt": without,
		"out-notgzip.gz": "1\tn0\twakeup\n", "out-longer.txt": string(text) + "4.99999\tn0\twakeup\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
