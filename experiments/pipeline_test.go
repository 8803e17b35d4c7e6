// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/submission"
)

// readPipeline reads a file with steps.
func readPipeline(file string) (*pipeline, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parsePipeline(file, text)
}

// A file with steps is read with all that they have; paths are from its folder.
func TestReadPipeline(t *testing.T) {
	p, err := readPipeline("../examples/pipeline/pipeline.yml")
	if err != nil || p == nil || len(p.steps) != 3 || p.failFast {
		t.Fatalf("found %+v, %v", p, err)
	}
	warm, check := p.steps[0], p.steps[2]
	if warm.Name != "warm" || warm.file != "../examples/mini.yml" || warm.Export["most"] != "throughput_rps" ||
		strings.Join(p.flagsOf(&warm), " ") != "--replications 4 --horizon 60 "+
			"--export throughput_rps --set rqs_input.avg_active_users.mean=200" {
		t.Errorf("found %+v", warm)
	}
	if !slices.Equal(check.After, []string{"sweep"}) || len(check.Require) != 2 || check.Priority != fleet.High ||
		!slices.Contains(p.flagsOf(&check), "rqs_input.avg_request_per_minute_per_user.mean=1") {
		t.Errorf("found %+v", check)
	}
	checked := &submission.Submission{Args: []string{"--set", "rqs_input.avg_request_per_minute_per_user.mean=1",
		"--seed", "2"}}
	want := "--set rqs_input.avg_request_per_minute_per_user.mean={warm.most} --seed 2"
	if err := check.take(checked); err != nil || strings.Join(check.Args, " ") != want {
		t.Errorf("found %q, %v", check.Args, err)
	}
}

// A step that goes on from another one's checkpoint is checked with what that has, and has its own settings alone.
func TestPipelineFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yml")
	text := "steps:\n  hot: {file: x.yml, set: [a=1], horizon: 60, seed: 3, checkpoint: 20}\n" +
		"  more: {from: hot, set: ['b={hot.n}'], replications: 2}\n"
	text = strings.Replace(text, "checkpoint: 20", "checkpoint: 20, export: {n: x}", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPipeline(file)
	if err != nil {
		t.Fatal(err)
	}
	hot, more := &p.steps[0], &p.steps[1]
	if got := strings.Join(p.flagsOf(more), " "); got != "--replications 2 --seed 3 --horizon 60 --set a=1 --set b=1" ||
		p.begins(more) != hot || !slices.Equal(more.After, []string{"hot"}) {
		t.Errorf("found %q, %v", got, more.After)
	}
	checked := &submission.Submission{Args: []string{"--set", "a=1", "--seed", "3", "--horizon", "60"}, Horizon: 60}
	if err := hot.take(checked); err != nil || !slices.Contains(hot.Args, "20="+fleet.HandedOn) {
		t.Errorf("found %q, %v", hot.Args, err)
	}
	if err := more.take(checked); err != nil || strings.Join(more.Args, " ") != "--set b={hot.n}" {
		t.Errorf("found %q, %v", more.Args, err)
	}
	checked.Horizon = 20
	if err := hot.take(checked); err == nil || !strings.Contains(err.Error(), "want less than the horizon, 20 s") {
		t.Errorf("found %v", err)
	}
}

// Each mistake is told once, as what stands in the file.
func TestReadPipelineOnce(t *testing.T) {
	for text, want := range map[string]string{
		"steps:\n  a: {file: x.yml, checkpoint: 2}\n  b: {from: c}\n": `step "b": from: found "c", want the name of`,
		"steps:\n  a: {file: x.yml, export: {x: 3}}\n":                "steps.a.export.x: found",
	} {
		file := filepath.Join(t.TempDir(), "p.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPipeline(file); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: found %v, want one line with %q", text, err, want)
		}
	}
}

// A place is a folder or a store, and looked at where it is written.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for place, ok := range map[string]bool{"": true, dir: true, filepath.Join(dir, "none"): true, "s3://night/x": true,
		"./s3:x": true, "s3:abc": false, "etcd:127.0.0.1:2379/x": false, "/dev/null": false, file: false} {
		if got, err := absolutePlace(place); (err == nil) != ok || err != nil && !app.IsUsage(err) ||
			ok && place != "" && !strings.Contains(got, "://") && !filepath.IsAbs(got) {
			t.Errorf("%q: found %q, %v, want it taken: %v", place, got, err, ok)
		}
	}
}

// What is no pipeline is left to the program with the models; of one all that is wrong is said at once.
func TestReadPipelineRefused(t *testing.T) {
	for text, wants := range map[string][]string{
		"model: x\nsteps: {a: {}}": nil,
		"kind: x\nsteps: 3":        nil,
		"kind: x\nsteps: [{a: 3}]": nil,
		"- steps":                  nil,
		"a: {":                     nil,
		"steps: {}":                {"p.yml:1:8: steps: found no steps, want a mapping with 1 or more steps"},
		"steps:\n":                 {"p.yml:1:1: steps: found no steps, want a mapping with 1 or more steps"},
		"fail_fast: true\nsteps:":  {"p.yml:2:1: steps: found no steps"},
		"steps: 3":                 {"p.yml:1:8: steps: found no steps, want a mapping with 1 or more steps"},
		"steps:\n  - {file: x.yml}": {"p.yml:2:3: steps: found a list, want a mapping with 1 or more steps by " +
			"their names, such as warm: {file: mini.yml}; put each step's name"},
		"fail_fsat: true\nsteps:\n  a: {file: x.yml, after: [c, z], replications: 0}\n" +
			"  b: {after: a, set: ['k={c.y}']}\n  c: {file: x.yml, after: b, warmup: soon, priority: urgent}\n": {
			"fail_fsat: found an unknown field", "did you mean fail_fast?", "steps.a.replications: found 0",
			`step "a": after: found "z"`, "steps.b.file: found nothing", `"a" after "c" after "b" after "a"`,
			"steps.c.warmup: found", "steps.c.priority: found"},
		"steps:\n  a: {file: x.yml, checkpoint: -1}\n  b: {from: a, file: y.yml, seed: 3}\n": {
			"steps.a.checkpoint: found -1", "steps.b.file: found it with from", "steps.b.seed: found it with from"},
	} {
		file := filepath.Join(t.TempDir(), "p.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := readPipeline(file)
		if wants == nil {
			if p != nil || err != nil {
				t.Errorf("%q: found %+v, %v", text, p, err)
			}
			continue
		}
		if err == nil || !app.IsUsage(err) {
			t.Errorf("%q: found %v", text, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: found %v\nwant %q", text, err, want)
			}
		}
	}
}
