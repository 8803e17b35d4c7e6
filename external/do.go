// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Result is what came of a call.
type Result struct {
	Answer   []byte
	Failure  string // the last attempt's error; "": there is an Answer
	Attempts int
	Took     time.Duration // all attempts, with the time between them
}

// returnTime is how long an Ask may go on behind its timeout before it is left to itself.
const returnTime = time.Second

// Do calls Ask until there is an answer, an error that isn't Retryable, or no attempt left. The error is that of a call
// that has neither: ctx has ended, Ask panicked (*PanicError), or hasn't used a key that it needs. x was checked.
func (x *External) Do(ctx context.Context, key string, request []byte) (Result, error) {
	return x.do(ctx, key, request, func(base time.Duration) time.Duration {
		return time.Duration(rand.Int64N(int64(base) + 1))
	})
}

func (x *External) do(ctx context.Context, key string, request []byte, jitter func(base time.Duration) time.Duration) (
	Result, error) {
	began := time.Now()
	p := &x.Policy
	attempts := or(p.Attempts, 1)
	for n := 1; ; n++ {
		answer, err := x.attempt(ctx, &Call{Request: request, Attempt: n, key: key})
		var fatal *fatalError
		switch {
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		case errors.As(err, &fatal):
			return Result{}, fatal.err
		case err == nil:
			return Result{Answer: answer, Attempts: n, Took: time.Since(began)}, nil
		}
		if n == attempts || errors.Is(err, errTooLong) || p.Retryable != nil && !p.Retryable(err) {
			return Result{Failure: failure(err), Attempts: n, Took: time.Since(began)}, nil
		}
		if !wait(ctx, p.delay(n, jitter(p.base()))) {
			return Result{}, ctx.Err()
		}
	}
}

// failure is the text of an error: never empty, and no longer than an answer may be.
func failure(err error) string {
	text := err.Error()
	if text == "" {
		text = fmt.Sprintf("%T without a text", err)
	}
	return text[:min(len(text), BytesMax)]
}

// errTooLong is an answer that is too long. Another attempt would hardly change that.
var errTooLong = errors.New("the answer is too long")

// fatalError is one that ends the run.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

// attempt calls Ask once, in a goroutine of its own: one that doesn't return is left to itself.
func (x *External) attempt(ctx context.Context, call *Call) ([]byte, error) {
	timeout := or(x.Policy.Timeout, timeoutDefault)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type outcome struct {
		answer []byte
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		answer, err := x.ask(limited, call)
		ended <- outcome{answer, err}
	}()
	var o outcome
	select {
	case o = <-ended:
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		last := time.NewTimer(returnTime)
		defer last.Stop()
		select {
		case o = <-ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-last.C:
			o.err = fmt.Errorf("no answer within %v, and it didn't return then: %w", timeout, limited.Err())
			return nil, o.err
		}
	}
	var fatal *fatalError
	switch {
	case errors.As(o.err, &fatal):
	case x.Policy.NeedsKey && !call.used.Load():
		return nil, &fatalError{errKey(x.Name)}
	case o.err != nil && errors.Is(o.err, limited.Err()):
		o.err = fmt.Errorf("no answer within %v: %w", timeout, o.err)
	case o.err != nil && limited.Err() != nil:
		o.err = fmt.Errorf("no answer within %v: %w: %w", timeout, limited.Err(), o.err)
	case o.err == nil && len(o.answer) > BytesMax:
		o.err = fmt.Errorf("%w: %d bytes, want at most %d", errTooLong, len(o.answer), BytesMax)
	}
	return o.answer, o.err
}

// ask calls Ask; a panic becomes an error.
func (x *External) ask(ctx context.Context, call *Call) (answer []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &fatalError{&PanicError{x.Name, v, string(debug.Stack())}}
		}
	}()
	return x.Ask(ctx, call)
}

// wait returns after a time: false, at once, when ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil // false when the time is over as well, too
}
