// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

// movingText is a scenario.
var movingText = launchtest.Scenario(6, 20, "")

// submitting is what the tests of submit have: a store with a group, a scenario, and this program as that which checks
// it.
type submitting struct {
	t          *testing.T
	url, file  string
	self, keys string
}

func newSubmitting(t *testing.T, url string) *submitting {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := &submitting{t: t, url: url, file: filepath.Join(t.TempDir(), "moving.yml"), self: self, keys: t.TempDir()}
	const warm = "steps:\n  warm: {file: moving.yml, checkpoint: 1"
	for name, text := range map[string]string{"": movingText, ".list": "steps: [{file: moving.yml}]\n",
		".points": warm + "}\n  more: {from: warm, sweep: ['horizon=5,10'], export: {a: x at horizon=7}}\n",
		".export": warm + ", export: {a: ended}}\n"} {
		if err := os.WriteFile(x.file+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(programVariable, "1")
	t.Setenv("XDG_STATE_HOME", x.keys)
	if status, _, stderr := run("", "store", "put", "made", "1", "--store", url); status != 0 {
		t.Fatal(stderr)
	}
	return x
}

// do is a command with the store; %F in it is the scenario.
func (x *submitting) do(args string) (status int, stdout, stderr string) {
	words := strings.Fields(strings.ReplaceAll(args, "%F", x.file))
	words = append(words, "--store", x.url)
	if words[0] == "submit" || words[0] == "results" {
		words = append(words, "--program", x.self)
	}
	return run("", words...)
}

// submit returns the id, which is the last word.
func (x *submitting) submit(args string) (id string) {
	x.t.Helper()
	status, stdout, stderr := x.do("submit %F " + args)
	words := strings.Fields(stdout)
	if status != 0 || len(words) == 0 {
		x.t.Fatalf("submit %s: status %d, %s%s", args, status, stdout, stderr)
	}
	return words[len(words)-1]
}

// fleet is a client of the same group.
func (x *submitting) fleet() *fleet.Client {
	x.t.Helper()
	s, err := dial.Open(x.t.Context(), dial.Options{URL: x.url, Store: metastore.Options{Group: "disco"}})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = s.Close() })
	c, err := fleet.New(x.t.Context(), s, fleet.Options{By: "the test"})
	if err != nil {
		x.t.Fatal(err)
	}
	return c
}

// What is submitted is there as it was checked, and wishes are carried to it by any name that it alone has.
func TestSubmitAndWishes(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		x := newSubmitting(t, url)
		id := x.submit("--name night --replications 3 --sweep horizon=5,10 --workers 2 --priority low --label rack=a " +
			"--attempts 2 --timeout 1m --seed 0x10")
		e, err := x.fleet().Show(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		step := e.Spec.Steps[0]
		got := fmt.Sprintln(step.Args, step.Points, step.Sweep, step.Replications, step.Workers, step.File,
			e.Spec.Name, e.Spec.Labels, e.Spec.Limits.Attempts, e.Spec.Limits.Total, e.Wish.Priority, e.Spec.Count())
		want := "[--seed 16] [[horizon=5] [horizon=10]] [horizon=5,10] 3 2 " + x.file +
			" night map[rack:a] 2 1m0s low 6\n"
		got = regexp.MustCompile("program:[0-9a-f]{16} ").ReplaceAllString(got, "")
		if got != want {
			t.Errorf("found %s", got)
		}
		text, err := x.fleet().Blob(t.Context(), step.Text)
		if err != nil || string(text) != movingText {
			t.Errorf("found %q, %v", text, err)
		}
		other := x.submit("")
		for _, c := range []struct {
			args   string
			status int
			want   string // of both outputs
		}{
			{"list", 0, id + "  night   SUBMITTED  0 of 6  low "},
			{"list", 0, other + "  moving  SUBMITTED  0 of 1  normal "},
			{"list --json", 0, `"pieces": 6,`},
			{"show night", 0, "2 points × 3 replications, 2 workers each; run --seed 16"},
			{"show night --json", 0, `"horizon=10"`},
			{"pause night --why release", 0, "pause is asked for: it is to stand still, with priority low (wish 2)"},
			{"list", 0, "to stand still"},
			{"priority " + id + " high", 0, "with priority high (wish 3)"},
			{"continue nig", 0, "it is to run, with priority high (wish 4)"},
			{"retry night", 1, "retry isn't possible; what is: pause, continue, cancel, priority"},
			{"cancel " + id[:len(id)-1], 0, "it is to end"},
			{"pause night", 1, "being cancelled: pause isn't possible; what is: cancel"},
			{"show nihgt", 2, "did you mean night?"},
			{"show " + id[:4], 2, "begins the ids or names of 2 experiments"},
			{"show", 2, "found 0 arguments"},
			{"show night --why 0.1.2", 0, "piece 0.1.2 of " + id + " wants 2 servers; the least score is taken"},
			{"show night --why 0.2.0", 2, "has no piece 0.2.0"},
			{"show night --why 17", 2, "want STEP.POINT.REPLICATION"},
			{"list all", 2, "`show ID` shows one"},
			{"priority night urgent", 2, `found "urgent", want high, normal or low`},
			{"submit %F --replications 0", 2, "--replications: found 0"},
			{"submit %F --sweep horizn=1,2", 2, "horizn"},
			{"submit %F --priority urgent", 2, "want high, normal or low"},
			{"submit %F --label program=x", 2, "want another name"},
			{"submit %F --no-progress 1s", 2, "--no-progress: found 1s, want at least 5s"},
			{"submit %F --attempts 0", 2, "--attempts: found 0"},
			{"submit %F --idempotency-key=", 2, "--idempotency-key: found nothing"},
			{"submit %F --idempotency-key=a\x1bb", 2, "--idempotency-key: found a control character"},
			{"submit %F --place s3://", 2, `--place: found "s3://", want a folder, s3://BUCKET/PREFIX`},
			{"submit %F --place s3://Nightly/x", 2, `--place: "s3://Nightly/x": found the bucket "Nightly"`},
			{"submit %F --place s3://10.0.0.7/x", 2, `found the bucket "10.0.0.7"`},
			{"submit %F --place file:///tmp/x", 2, `--place: found "file:///tmp/x"`},
			{"cancel night --why=\x1b[1m", 2, "--why: found a control character"},
			{"cancel night --why=" + strings.Repeat("x", 501), 2, "--why: found 501 bytes, want at most 500"},
			{"submit %F.none", 2, "nothing was sent"},
			{"results night --step zz", 2, "of an experiment that has no steps"},
			{"submit %F.list", 2, "moving.yml.list:1:8: steps: found a list, want a mapping with 1 or more steps"},
			{"submit %F.points", 2, `moving.yml.points: step "more": export: a: found the settings "horizon=7"`},
			{"submit %F.export", 2, "moving.yml.export: step warm: "},
			{"submit %F --group none", 2, "no such group"},
			{"submit %F --sweep horizon=0,1", 2, "nothing was sent"},
		} {
			status, stdout, stderr := x.do(c.args)
			if status != c.status || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("%s: status %d, %s%s; want %d, %q", c.args, status, stdout, stderr, c.status, c.want)
			}
		}
		x.nothingSaved()
	})
}

// nothingSaved fails where a key is saved though all had an answer.
func (x *submitting) nothingSaved() {
	x.t.Helper()
	files, err := filepath.Glob(filepath.Join(x.keys, "disco", "submissions", "*"))
	if err != nil || len(files) > 0 {
		x.t.Errorf("found %v, %v", files, err)
	}
}

// One key is one experiment; a random one of a try without an answer is used again.
func TestSubmitAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x := newSubmitting(t, etcd(ctx, t))
	first := x.submit("--idempotency-key k")
	if again := x.submit("--idempotency-key k"); again != first {
		t.Errorf("found %s, want %s", again, first)
	}
	dir, name := filepath.Split(x.file)
	status, stdout, stderr := x.do("submit " + dir + "../" + filepath.Base(dir) + "/" + name + " --idempotency-key k")
	if status != 0 || !strings.HasSuffix(stdout, first+"\n") {
		t.Errorf("the same file, named otherwise: status %d, %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = x.do("submit %F --idempotency-key k --replications 2")
	if status != 1 || !strings.Contains(stderr, first) || !strings.Contains(stderr, "or another key") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	if other := x.submit(""); other == first || other == x.submit("") {
		t.Errorf("found %s twice: each has a key of its own", other)
	}
	x.nothingSaved()

	store := x.url // nobody is there
	x.url = "etcd://127.0.0.1:1"
	status, stdout, stderr = x.do("submit %F --replications 7 --store-timeout 200ms")
	if status != 1 || !strings.Contains(stderr, "(3 of 3)") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(x.keys, "disco", "submissions", "*-0"))
	if err != nil || len(files) != 1 {
		t.Fatalf("found %v, %v: the key of what had no answer is to be there", files, err)
	}
	saved, err := os.ReadFile(files[0])
	if err != nil || len(saved) != 26 {
		t.Errorf("found %q, %v, want a key of 130 bits", saved, err)
	}
	x.url = store
}

// The answer as JSON has the id.
func TestSubmitJSON(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x := newSubmitting(t, etcd(ctx, t))
	status, stdout, stderr := x.do("submit %F --json")
	var answer struct{ ID, Name string }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || status != 0 || answer.ID == "" ||
		answer.Name != "moving" {
		t.Errorf("status %d, %s%s, %v", status, stdout, stderr, err)
	}
	status, stdout, stderr = run("", "submit", x.file, "--store", x.url, "--program", "/bin/true")
	if status != 2 || !strings.Contains(stderr, "found /bin/true, which has no models") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
