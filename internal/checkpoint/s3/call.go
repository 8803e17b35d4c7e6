// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// Error is what the store, or the way to it, has refused.
type Error struct {
	Where    string // the blob's address, or the place's
	Endpoint string
	Op       string // what was asked
	Err      error  // what was found, without credentials
	Code     string // of S3; empty: the store hasn't answered
	denied   bool   // it doesn't like the credentials
}

// Error says what was asked of whom, what was found, and what to do.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s at %s: %v", e.Where, e.Op, e.Endpoint, e.Err)
	advice, ok := advices[e.Code]
	if !ok && e.denied {
		advice = checkCredentials
	}
	if advice != "" {
		text += ": " + advice
	}
	return text
}

// Unwrap gives what was found.
func (e *Error) Unwrap() error { return e.Err }

const checkCredentials = "check " + keyVar + ", " + secretVar + " and " + tokenVar

// advices say what to do, by codes of S3.
var advices = map[string]string{
	"": "check that " + endpointVar + " is right, and that the store can be reached",
	"AccessDenied": "the credentials want the rights s3:ListBucket for the bucket, and s3:GetObject, s3:PutObject, " +
		"s3:DeleteObject and s3:AbortMultipartUpload for what is in it",
	"AuthorizationHeaderMalformed": "set " + regionVar + " to the bucket's region",
	"ExpiredToken":                 "get new ones: " + checkCredentials,
	"NoSuchBucket":                 "make the bucket, or name another one",
	"NoSuchUpload":                 "another process has taken it back: see that only one writes here",
	"NotImplemented":               "disco wants a store with conditional writes",
	"PermanentRedirect":            "set " + regionVar + " to the bucket's region",
	"XAdminUserNotFound":           checkCredentials, // of versitygw
	"RequestTimeTooSkewed":         "set this machine's clock",
}

// answerOf gives the answer of the store that is an error; the zero one: it is none.
func answerOf(err error) (answer minio.ErrorResponse) {
	errors.As(err, &answer)
	return answer
}

// errQuiet ends a call in which nothing moves.
var errQuiet = errors.New("s3: nothing moves")

// call does a call of the store, in as many requests as it takes, until nothing has moved for s.quiet. An error is
// ctx's, or an *Error.
func (s *Store) call(ctx context.Context, op, name string, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{quiet: time.Duration(s.quiet.Load())}
	w.timer = time.AfterFunc(w.quiet, func() { cancel(errQuiet) })
	defer w.timer.Stop()
	err := f(context.WithValue(within, watchKey{}, w))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(within), errQuiet):
		err = fmt.Errorf("nothing has moved for %v: %w", w.quiet, w.lastError())
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the address of the request
	}
	answer := answerOf(err)
	e := &Error{Where: s.String(), Endpoint: s.endpoint, Op: op, Err: err, Code: answer.Code,
		denied: answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized}
	if name != "" {
		e.Where += "/" + name
	}
	text := err.Error()
	for _, secret := range s.secrets {
		const shortest = 8 // shorter ones are words of the message
		if len(secret) >= shortest && strings.Contains(text, secret) {
			text = strings.ReplaceAll(text, secret, "(hidden)")
			e.Err = errors.New(text)
		}
	}
	if e.Code != "" {
		e.Err = errors.New(e.Code + ": " + strings.TrimSuffix(e.Err.Error(), "."))
	}
	return e
}

// answered gives the code that an error of call has; empty: it is none of an answer.
func answered(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// missing makes the error about a blob that isn't there of one of call.
func (s *Store) missing(name string, err error) error {
	if answered(err) == "NoSuchKey" {
		return &checkpoint.MissingError{Where: s.String(), Name: name}
	}
	return err
}

// pause waits before a request is made again: with full jitter, as minio does.
func pause(ctx context.Context, try int) error {
	const least, most = 50 * time.Millisecond, time.Second
	timer := time.NewTimer(rand.N(min(least<<min(try, 10), most)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() // when the time is over as well, too
}

type watchKey struct{}

// watch ends a call in which nothing moves. Goroutines share it.
type watch struct {
	quiet time.Duration
	timer *time.Timer

	mu   sync.Mutex
	last error // of the last request that wasn't answered
}

func (w *watch) moved() { w.timer.Reset(w.quiet) }

func (w *watch) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, context.Canceled) && !errors.Is(err, errQuiet) { // else it is how the call was ended
		w.last = err
	}
}

// lastError says why nothing moves.
func (w *watch) lastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return errors.New("the store doesn't answer")
	}
	return w.last
}

// transport tells the watch of a call what moves: parts of requests that are sent, answers, and parts of these.
type transport struct {
	base *http.Transport
	turn func(*http.Response) // answers that tests change; nil: none
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w, _ := r.Context().Value(watchKey{}).(*watch)
	if w == nil {
		return t.base.RoundTrip(r)
	}
	if r.Body != nil {
		sent := *r
		sent.Body = &movingBody{r.Body, w}
		r = &sent
	}
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		w.failed(err)
		return nil, err
	}
	if answer.StatusCode >= http.StatusInternalServerError {
		w.failed(fmt.Errorf("the store answers %s", answer.Status))
	} else {
		w.moved()
	}
	answer.Body = &movingBody{answer.Body, w}
	if t.turn != nil {
		t.turn(answer)
	}
	return answer, nil
}

// movingBody is a body that tells the watch when some of it has moved.
type movingBody struct {
	io.ReadCloser
	watch *watch
}

// Read implements io.Reader.
func (b *movingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.moved()
	}
	return n, err
}
