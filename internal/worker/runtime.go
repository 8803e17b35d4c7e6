// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/shm"
)

// goRuntime is the Go runtime as a node.Engine sees it.
type goRuntime struct {
	// locked says that the goroutine that calls handlers has a thread of its own
	// (runtime.LockOSThread), so that the thread's number tells it from all others.
	locked bool
}

// stackMax is how many calls of a model are shown: the innermost, where the cause is.
const stackMax = 30

// Functions between which the stack of a model lies: what calls it, and what it calls.
var (
	callers = []string{"/node.(*Engine).activate", "/node.(*Engine).makeHandler", "/node.(*Engine).report"}
	callees = []string{"/node.(*Engine).", "/node.(*Simproc).", "/worker.goRuntime."}
)

// Stack implements node.Runtime.
func (goRuntime) Stack() string {
	pcs := make([]uintptr, 512)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var calls []runtime.Frame
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == "" || isAny(f.Function, callers) || f.Function == "runtime.goexit" {
			if len(calls) > 0 && f.Function != "" {
				break
			}
			continue
		}
		if f.Function == "runtime.gopanic" {
			calls = calls[:0] // what is inside is the recovery
			continue
		}
		calls = append(calls, f)
	}
	for len(calls) > 0 && (strings.HasPrefix(calls[0].Function, "runtime.") || hasAny(calls[0].Function, callees)) {
		calls = calls[1:]
	}
	var b strings.Builder
	b.WriteString("in the model's code:")
	for _, f := range calls[:min(len(calls), stackMax)] {
		fmt.Fprintf(&b, "\n    %s\n        %s:%d", path.Base(f.Function), f.File, f.Line)
	}
	if len(calls) > stackMax {
		fmt.Fprintf(&b, "\n    (and %d calls around them)", len(calls)-stackMax)
	}
	return b.String()
}

func isAny(function string, names []string) bool {
	for _, name := range names {
		if strings.HasSuffix(function, name) {
			return true
		}
	}
	return false
}

func hasAny(function string, names []string) bool {
	for _, name := range names {
		if strings.Contains(function, name) {
			return true
		}
	}
	return false
}

// Goroutine implements node.Runtime: the thread's number, where each goroutine in question has
// a thread of its own; otherwise the number in the first line of a stack dump, because Go has
// no other name for a goroutine. That takes 15 us and more, the thread's number a tenth of one.
func (r goRuntime) Goroutine() uint64 {
	if r.locked {
		return shm.ThreadID()
	}
	return invariants.Goroutine()
}
