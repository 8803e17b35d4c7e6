// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// want is the expected result of a fault.
type want struct {
	exit     []int         // one of these; a death by a signal is 128 and its number
	stderr   []string      // patterns that standard error has to match, each
	never    []string      // patterns that it must not match
	within   time.Duration // from the fault to the end of the run; 0: no promise
	sameHash bool          // a run that ends with 0 has the undisturbed hash
	partial  bool          // results are those of a run with the horizon that this one reached
	crash    bool          // a crash text is expected
	files    []string      // that may exist afterwards
	orphans  bool          // the launcher itself dies: workers have this time to end
}

// crashes are texts that must not appear, unless the model itself crashes.
var crashes = []string{`(?m)^\s*goroutine \d+ .*\[`, `SIGSEGV`, `SIGBUS`, `fatal error: `}

// judge waits for the end of the run and compares it with the expected result.
func (t *try) judge(o *outcome) {
	w := &t.cell.want
	wrong := func(format string, args ...any) { o.wrong = append(o.wrong, fmt.Sprintf(format, args...)) }
	select {
	case <-t.over:
	case <-time.After(t.longer(t.hang)):
		o.left, _ = t.left(0)
		wrong("it hangs: not over within %v; standard error: %s", t.longer(t.hang), excerpt(t.said("stderr")))
		return
	}
	if o.missed {
		w = &want{exit: []int{0}, sameHash: t.cell.soon, files: w.files}
	}
	grace := leftGrace
	if w.orphans {
		grace = t.longer(w.within)
	}
	var names []string
	if o.left, names = t.left(t.longer(grace)); o.left != (leftovers{}) {
		wrong("left behind: %s", strings.Join(names, ", "))
	}
	o.detect = t.ended.Sub(t.struck)
	if w.orphans {
		o.detect = time.Since(t.struck)
	}
	if w.within > 0 && o.detect > t.longer(w.within) {
		wrong("it took %v to end, want at most %v", o.detect.Round(time.Millisecond), t.longer(w.within))
	}
	status := t.cmd.ProcessState.ExitCode()
	if ws, ok := t.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = shellStatus + int(ws.Signal())
	}
	said := t.said("stderr")
	if !slices.Contains(w.exit, status) {
		wrong("exit status %d, want one of %v; standard error: %s", status, w.exit, excerpt(said))
	}
	t.judgeWords(w, said, status, wrong)
	if status == 0 && w.sameHash {
		t.judgeHash(wrong)
	}
	if w.partial {
		t.judgePartial(wrong)
	}
}

// judgeWords checks standard error. A run that succeeded need not print anything.
func (t *try) judgeWords(w *want, said string, status int, wrong func(string, ...any)) {
	for _, p := range w.stderr {
		if (status != 0 || len(w.exit) == 1) && !regexp.MustCompile(p).MatchString(said) {
			wrong("standard error doesn't say %q: %s", p, excerpt(said))
		}
	}
	never := w.never
	if !w.crash {
		never = append(slices.Clone(crashes), never...)
	}
	for _, p := range never {
		if regexp.MustCompile(p).MatchString(said) {
			wrong("standard error says %q: %s", p, excerpt(said))
		}
	}
}

// judgePartial compares an interrupted run with one whose horizon is the time that it reached: all figures are
// about the same time.
func (t *try) judgePartial(wrong func(string, ...any)) {
	var r result
	if err := json.Unmarshal([]byte(t.said("stdout")), &r); err != nil || len(r.Replications) != 1 {
		wrong("standard output is no JSON of one replication: %v", err)
		return
	}
	reached := r.Replications[0].Reached
	if reached == 0 {
		return // nothing was simulated
	}
	whole, err := t.simulate(t.cell.kind, strconv.FormatFloat(reached, 'g', -1, 64))
	if err != nil {
		wrong("%v", err)
		return
	}
	if r.Events != whole.Events {
		wrong("%d events up to %v, but a run with that horizon has %d", r.Events, reached, whole.Events)
	}
	got, expected := numbersOf(r.Results), numbersOf(whole.Results)
	if len(expected) == 0 {
		wrong("a run with the horizon %v has no number in its results", reached)
	}
	for name, v := range expected {
		if got[name] != v {
			wrong("%s is %v up to %v, but a run with that horizon has %v", name, got[name], reached, v)
		}
	}
}

// numbersOf are the plain numbers of results, but for those that repeat what was asked.
func numbersOf(results json.RawMessage) map[string]float64 {
	var fields map[string]json.RawMessage
	numbers := map[string]float64{}
	if json.Unmarshal(results, &fields) != nil {
		return numbers // the caller reports that they are missing
	}
	for name, text := range fields {
		var v float64
		if json.Unmarshal(text, &v) == nil && string(text) != "null" &&
			!slices.Contains([]string{"horizon_s", "end_s", "batches"}, name) {
			numbers[name] = v
		}
	}
	return numbers
}

func (t *try) judgeHash(wrong func(string, ...any)) {
	if slices.Contains(t.cell.args, "--json") {
		return // it was written to a file
	}
	expected, err := t.expected()
	if err != nil {
		wrong("%v", err)
		return
	}
	var r result
	if err := json.Unmarshal([]byte(t.said("stdout")), &r); err != nil {
		wrong("standard output is no JSON: %v", err)
		return
	}
	if r.Hash != expected {
		wrong("trace hash %s, want %s", r.Hash, expected)
	}
}

// excerpt is the beginning of a text, on one line.
func excerpt(text string) string {
	const most = 500
	if text == "" {
		return "(nothing)"
	}
	if len(text) > most {
		text = text[:most] + " …"
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", " | ")
}
