// SPDX-License-Identifier: Apache-2.0

package circuit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCircuit has one open, try, open again for longer, try and close.
func TestCircuit(t *testing.T) {
	var c Circuit
	now, broken := time.Now(), errors.New("srun isn't there")
	try := func(r Result) {
		t.Helper()
		number, err := c.Allow(now)
		if err != nil {
			t.Fatal(err)
		}
		c.Done(now, number, r, broken)
	}
	refused := func(wait time.Duration) {
		t.Helper()
		var open *OpenError
		if _, err := c.Allow(now); !errors.As(err, &open) || !errors.Is(err, broken) || open.For > wait ||
			open.For < wait/2 {
			t.Fatalf("found %v, want a refusal for %v to %v", err, wait/2, wait)
		}
	}
	try(HasFailed)
	try(HasFailed)
	try(Succeeded) // not in a row
	try(HasFailed)
	try(Neither)
	try(HasFailed)
	try(HasFailed)
	refused(10 * time.Second)
	for _, wait := range []time.Duration{20, 40, 80, 160, 300, 300} {
		now = now.Add(5 * time.Minute)
		try(HasFailed)
		refused(wait * time.Second)
	}
	now = now.Add(5 * time.Minute)
	if why, trial := c.Refusal(now); why != nil || !trial {
		t.Fatalf("found %v, %v, want a trial", why, trial)
	}
	number, err := c.Allow(now)
	if err != nil {
		t.Fatal(err)
	}
	c.Done(now, number-1, HasFailed, broken) // late: it was let through before
	if _, err := c.Allow(now); err == nil || !strings.HasPrefix(err.Error(), "a trial is under way") {
		t.Fatalf("beside a trial: %v", err)
	}
	c.Done(now, number, Neither, nil) // it was given up: there may be another one
	for range 3 {
		try(Succeeded)
	}
	if why, trial := c.Refusal(now); why != nil || trial {
		t.Fatalf("found %v, %v behind so many successes", why, trial)
	}
	for range 3 {
		try(HasFailed)
	}
	refused(10 * time.Second)
}

// TestLateFailures has what was let through before say nothing about a circuit that has opened since.
func TestLateFailures(t *testing.T) {
	var c Circuit
	now, broken := time.Now(), errors.New("no")
	for range 10 {
		if _, err := c.Allow(now); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		c.Done(now, uint64(n+1), HasFailed, broken)
	}
	var open *OpenError
	if _, err := c.Allow(now); !errors.As(err, &open) || open.For > 10*time.Second {
		t.Fatalf("found %v, want it open for 10 s at most", err)
	}
}
