// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestOutputPassesLinesOn(t *testing.T) {
	var out bytes.Buffer
	o := NewOutput("worker 1", NewLineWriter(&out))
	for _, part := range []string{"one\ntw", "o\r\n", "thr"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	if got, want := out.String(), "worker 1: one\nworker 1: two\n"; got != want {
		t.Errorf("passed on %q, want %q", got, want)
	}
	if got := strings.Join(o.Lines(), "|"); got != "one|two|thr" {
		t.Errorf("kept %q", got)
	}
}

func TestOutputIsBounded(t *testing.T) {
	o := NewOutput("w", NewLineWriter(nil))
	for i := range 1000 {
		fmt.Fprintf(o, "line %d\n", i)
	}
	fmt.Fprint(o, strings.Repeat("x", 10*lineBytesMax))
	got := o.Lines()
	if len(got) != linesKept || got[0] != "line 981" || len(got[linesKept-1]) != lineBytesMax {
		t.Errorf("kept %d lines from %q to one of %d bytes", len(got), got[0], len(got[len(got)-1]))
	}
}

// The first lines of a crash are the ones that matter; they are kept for the report
// instead of being passed on, unless the worker ends well after all.
func TestOutputKeepsTheHeadOfACrash(t *testing.T) {
	var out bytes.Buffer
	o := NewOutput("w", NewLineWriter(&out))
	fmt.Fprint(o, "before\npanic: broken\n\ngoroutine 1 [running]:\n")
	for i := range 100 {
		fmt.Fprintf(o, "frame %d\n", i)
	}
	got := o.Lines()
	if len(got) != CrashLines+1 || got[0] != "panic: broken" || got[CrashLines] != "(63 more lines)" {
		t.Errorf("kept %d lines: %q", len(got), got)
	}
	if out.String() != "w: before\n" {
		t.Errorf("passed on %q", out.String())
	}
	o.Flush()
	if !strings.Contains(out.String(), "w: panic: broken\n") {
		t.Errorf("after flush passed on %q", out.String())
	}
}

// A stack shows that something crashed, however it was announced: the reason stands
// before it and isn't pushed out by the stacks of other goroutines.
func TestOutputKeepsUnannouncedCrash(t *testing.T) {
	for _, reason := range []string{"half a linepanic: tiny: broke", "SIGABRT: abort"} {
		o := NewOutput("worker 0", NewLineWriter(nil))
		fmt.Fprintf(o, "before\n%s\nPC=0x1\n\ngoroutine 7 gp=0x1 m=2 [running]:\nmain.main()\n", reason)
		for i := range 200 {
			fmt.Fprintf(o, "goroutine %d [select]:\n", i)
		}
		text := strings.Join(o.Lines(), "\n")
		if !strings.Contains(text, reason) || !strings.Contains(text, "main.main()") {
			t.Errorf("the report shows\n%s", text)
		}
	}
}
