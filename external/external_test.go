// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func answer(context.Context, *Call) ([]byte, error) { return []byte("yes"), nil }

// Each rule of an External, broken alone, is refused with what is wrong and what is allowed.
func TestCheck(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(*External)
		text  string
	}{
		"no name":                {func(x *External) { x.Name = "" }, "1 to 64"},
		"a long name":            {func(x *External) { x.Name = strings.Repeat("n", 65) }, "1 to 64"},
		"a name with a slash":    {func(x *External) { x.Name = "a/b" }, `external "a/b": found this name`},
		"no function":            {func(x *External) { x.Ask = nil }, "Ask: found none"},
		"a timeout below 0":      {func(x *External) { x.Policy.Timeout = -1 }, "Timeout: found -1ns"},
		"a timeout of two days":  {func(x *External) { x.Policy.Timeout = 48 * time.Hour }, "at most 24h"},
		"attempts below 0":       {func(x *External) { x.Policy.Attempts = -1 }, "Attempts: found -1, want 1 to 1000"},
		"too many attempts":      {func(x *External) { x.Policy.Attempts = 1001 }, "found 1001"},
		"a base below 0":         {func(x *External) { x.Policy.BaseDelay = -1 }, "BaseDelay: found -1ns"},
		"a greatest one below 0": {func(x *External) { x.Policy.MaxDelay = -1 }, "MaxDelay: found -1ns"},
		"less than the base": {func(x *External) { x.Policy.BaseDelay, x.Policy.MaxDelay = 2e9, 1e9 },
			"MaxDelay: found 1s, want at least BaseDelay, which is 2s"},
	} {
		x := External{Name: "solver", Ask: answer, Policy: Policy{Timeout: 24 * time.Hour, Attempts: 1000,
			BaseDelay: time.Second, MaxDelay: time.Second}}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		c.spoil(&x)
		if err := x.Check(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.text)
		}
	}
	x := External{Name: "solver", Ask: answer}
	if err := CheckAll([]External{x, x}); err == nil || !strings.Contains(err.Error(), "two of this name") {
		t.Errorf("two of a name: %v", err)
	}
	if err := CheckAll([]External{x, {Name: "b", Ask: answer}}); err != nil {
		t.Error(err)
	}
}

// The delays are those of the formula.
func TestDelay(t *testing.T) {
	p := Policy{BaseDelay: time.Second, MaxDelay: 10 * time.Second}
	for n, want := range []time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond, 4500 * time.Millisecond,
		8500 * time.Millisecond, 10 * time.Second, 10 * time.Second} {
		if d := p.delay(n+1, 500*time.Millisecond); d != want {
			t.Errorf("before attempt %d: %v, want %v", n+2, d, want)
		}
	}
	if d := p.delay(999, 0); d != 10*time.Second {
		t.Errorf("before the last of all: %v", d)
	}
	if d := (&Policy{BaseDelay: time.Hour}).delay(1, 0); d != time.Hour {
		t.Errorf("a base above the default greatest delay gives %v", d)
	}
}

// A call is tried until there is an answer, as often as its policy allows, with the delays of the formula between.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, keys := 0, map[string]bool{}
		x := External{Name: "solver", Policy: Policy{Attempts: 4, BaseDelay: time.Second},
			Ask: func(_ context.Context, c *Call) ([]byte, error) {
				tries++
				keys[c.Key()] = true
				if c.Attempt != tries {
					t.Errorf("attempt %d is number %d", tries, c.Attempt)
				}
				if tries < 3 {
					return nil, errors.New("busy")
				}
				return append([]byte("echo "), c.Request...), nil
			}}
		none := func(time.Duration) time.Duration { return 0 }
		r, err := x.do(t.Context(), "k", []byte("x"), none)
		if err != nil || string(r.Answer) != "echo x" || r.Attempts != 3 || r.Took != 3*time.Second || len(keys) != 1 {
			t.Fatalf("%+v, %v, %d keys", r, err, len(keys))
		}
		tries = -10
		x.Ask = func(context.Context, *Call) ([]byte, error) { tries++; return nil, errors.New("busy") }
		r, err = x.do(t.Context(), "k", nil, none)
		if err != nil || r.Failure != "busy" || r.Attempts != 4 || tries != -6 {
			t.Fatalf("%+v, %v", r, err)
		}
		x.Policy.Retryable = func(err error) bool { return err.Error() != "busy" }
		if r, err = x.do(t.Context(), "k", nil, none); err != nil || r.Failure != "busy" || r.Attempts != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		most := time.Duration(0)
		x.Policy.Retryable = nil
		for range 100 {
			began := time.Now()
			if _, err = x.Do(t.Context(), "k", nil); err != nil {
				t.Fatal(err)
			}
			d := time.Since(began) // 1, 2 and 4 s, each with up to 1 s
			if most = max(most, d); d < 7*time.Second || d > 10*time.Second {
				t.Fatalf("the delays are %v", d)
			}
		}
		if most == 7*time.Second {
			t.Error("there is no jitter")
		}
	})
}

// An attempt ends with its time, whether Ask returns then or not; the end of the context ends all.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := External{Name: "slow", Ask: func(ctx context.Context, _ *Call) ([]byte, error) {
			<-ctx.Done()
			return nil, errors.New("stopped")
		}}
		began := time.Now()
		r, err := x.Do(t.Context(), "", nil)
		if err != nil || r.Failure != "no answer within 30s: context deadline exceeded: stopped" ||
			time.Since(began) != 30*time.Second {
			t.Fatalf("%+v, %v after %v", r, err, time.Since(began))
		}
		retried := 0
		x.Policy.Retryable = func(err error) bool { retried++; return errors.Is(err, context.DeadlineExceeded) }
		x.Policy.Attempts = 2
		if r, err = x.Do(t.Context(), "", nil); err != nil || r.Attempts != 2 || retried != 1 {
			t.Fatalf("%+v, %v, asked %d times", r, err, retried)
		}
		release := make(chan struct{})
		deaf := External{Name: "deaf", Policy: Policy{Timeout: time.Second},
			Ask: func(context.Context, *Call) ([]byte, error) { <-release; return nil, nil }}
		began = time.Now()
		r, err = deaf.Do(t.Context(), "", nil)
		if err != nil || !strings.Contains(r.Failure, "it didn't return then") || time.Since(began) != 2*time.Second {
			t.Fatalf("%+v, %v after %v", r, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err = deaf.Do(ctx, "", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		close(release)
		x.Ask = func(context.Context, *Call) ([]byte, error) { return nil, errors.New("busy") }
		x.Policy = Policy{Attempts: 2, BaseDelay: time.Hour}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err = x.Do(ctx, "", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("between two attempts: %v", err)
		}
	})
}

// What ends a run rather than a call.
func TestFatal(t *testing.T) {
	x := External{Name: "pay", Policy: Policy{NeedsKey: true, Attempts: 5}, Ask: answer}
	_, err := x.Do(t.Context(), "k", nil)
	if err == nil || !strings.Contains(err.Error(), "hasn't looked at Call.Key") {
		t.Errorf("a key that isn't used: %v", err)
	}
	x.Ask = func(_ context.Context, c *Call) ([]byte, error) { return []byte(c.Key()), nil }
	if r, err := x.Do(t.Context(), "k", nil); err != nil || string(r.Answer) != "k" {
		t.Errorf("%+v, %v", r, err)
	}
	x.Ask = func(context.Context, *Call) ([]byte, error) { panic("broken") }
	var p *PanicError
	_, err = x.Do(t.Context(), "k", nil)
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "external_test.go") {
		t.Errorf("a panic: %v", err)
	}
	x = External{Name: "big", Policy: Policy{Attempts: 5}}
	x.Ask = func(context.Context, *Call) ([]byte, error) { return make([]byte, BytesMax), nil }
	if r, err := x.Do(t.Context(), "", nil); err != nil || len(r.Answer) != BytesMax {
		t.Errorf("the largest answer: %q, %v", r.Failure, err)
	}
	x.Ask = func(context.Context, *Call) ([]byte, error) { return make([]byte, BytesMax+1), nil }
	if r, err := x.Do(t.Context(), "", nil); err != nil || r.Attempts != 1 ||
		!strings.Contains(r.Failure, "16777217 bytes, want at most 16777216") {
		t.Errorf("%q, %v", r.Failure, err)
	}
	x.Ask = func(context.Context, *Call) ([]byte, error) { return nil, errors.New(strings.Repeat("e", 20<<20)) }
	if r, err := x.Do(t.Context(), "", nil); err != nil || len(r.Failure) != BytesMax {
		t.Errorf("an error of 20 MiB has %d, %v", len(r.Failure), err)
	}
	x.Ask = func(context.Context, *Call) ([]byte, error) { return nil, errors.New("") }
	if r, err := x.Do(t.Context(), "", nil); err != nil || r.Failure == "" {
		t.Errorf("an error without a text: %+v, %v", r, err)
	}
}
