// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTailPassesLinesOn(t *testing.T) {
	var out bytes.Buffer
	tl := &tail{name: "worker 1", to: &lineWriter{w: &out}}
	for _, part := range []string{"one\ntw", "o\r\n", "thr"} {
		if n, err := tl.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	if got, want := out.String(), "worker 1: one\nworker 1: two\n"; got != want {
		t.Errorf("passed on %q, want %q", got, want)
	}
	if got := strings.Join(tl.lines(), "|"); got != "one|two|thr" {
		t.Errorf("kept %q", got)
	}
}

func TestTailIsBounded(t *testing.T) {
	tl := &tail{name: "w", to: &lineWriter{}}
	for i := range 1000 {
		fmt.Fprintf(tl, "line %d\n", i)
	}
	fmt.Fprint(tl, strings.Repeat("x", 10*tailLineBytes))
	got := tl.lines()
	if len(got) != tailLines || got[0] != "line 981" || len(got[tailLines-1]) != tailLineBytes {
		t.Errorf("kept %d lines from %q to one of %d bytes", len(got), got[0], len(got[len(got)-1]))
	}
}

// The first lines of a crash are the ones that tell; they are kept for the report
// instead of being passed on, unless the worker ends well after all.
func TestTailKeepsTheHeadOfACrash(t *testing.T) {
	var out bytes.Buffer
	tl := &tail{name: "w", to: &lineWriter{w: &out}}
	fmt.Fprint(tl, "before\npanic: broken\n\ngoroutine 1 [running]:\n")
	for i := range 100 {
		fmt.Fprintf(tl, "frame %d\n", i)
	}
	got := tl.lines()
	if len(got) != tailCrash+1 || got[0] != "panic: broken" || got[tailCrash] != "(63 more lines)" {
		t.Errorf("kept %d lines: %q", len(got), got)
	}
	if out.String() != "w: before\n" {
		t.Errorf("passed on %q", out.String())
	}
	tl.flush()
	if !strings.Contains(out.String(), "w: panic: broken\n") {
		t.Errorf("after flush passed on %q", out.String())
	}
}

// A stack shows that something crashed, however it was announced: the reason stands
// before it and isn't pushed out by the stacks of other goroutines.
func TestTailKeepsUnannouncedCrash(t *testing.T) {
	for _, reason := range []string{"half a linepanic: tiny: broke", "SIGABRT: abort"} {
		l := &tail{name: "worker 0", to: &lineWriter{}}
		fmt.Fprintf(l, "before\n%s\nPC=0x1\n\ngoroutine 7 gp=0x1 m=2 [running]:\nmain.main()\n", reason)
		for i := range 200 {
			fmt.Fprintf(l, "goroutine %d [select]:\n", i)
		}
		text := strings.Join(l.lines(), "\n")
		if !strings.Contains(text, reason) || !strings.Contains(text, "main.main()") {
			t.Errorf("the report shows\n%s", text)
		}
	}
}
