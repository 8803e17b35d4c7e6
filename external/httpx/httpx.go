// SPDX-License-Identifier: Apache-2.0

// Package httpx asks services over HTTP. It is a package of its own because net/http makes a program 5 MB larger.
//
// Guarantee: an answer is read up to external.BytesMax and not beyond, and a request ends with its attempt. Statuses of
// 400 and above are errors, of which Retryable says whether another attempt may help.
//
//	external.External{
//		Name:   "prices",
//		Ask:    httpx.Post{URL: p.Prices, ContentType: "application/json"}.Ask,
//		Policy: external.Policy{Attempts: 5, Retryable: httpx.Retryable},
//	}
package httpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/disco-sim/disco/external"
)

// Post sends each request as the body of a POST, with the header Idempotency-Key; the answer is the body that comes
// back.
type Post struct {
	URL         string
	ContentType string            // "": application/octet-stream
	Header      map[string]string // further ones
	Client      *http.Client      // nil: http.DefaultClient
}

// StatusError is a status of 400 or above.
type StatusError struct {
	Status string // with its number in front
	Code   int
	Body   string // its begin
}

// Error is status and body.
func (e *StatusError) Error() string {
	if e.Body == "" {
		return "status " + e.Status
	}
	return fmt.Sprintf("status %s: %s", e.Status, e.Body)
}

const bodyShown = 500

// Ask is an external.Func.
func (p Post) Ask(ctx context.Context, call *external.Call) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(call.Request))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	if p.ContentType != "" {
		r.Header.Set("Content-Type", p.ContentType)
	}
	r.Header.Set("Idempotency-Key", call.Key())
	for name, value := range p.Header {
		r.Header.Set(name, value)
	}
	client := p.Client
	if client == nil {
		client = http.DefaultClient
	}
	a, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	var read bytes.Buffer
	if _, err := read.ReadFrom(io.LimitReader(a.Body, external.BytesMax+1)); err != nil { // one more is refused by Do
		return nil, err
	}
	body := read.Bytes()
	if a.StatusCode >= http.StatusBadRequest {
		return nil, &StatusError{a.Status, a.StatusCode, string(body[:min(len(body), bodyShown)])}
	}
	return body, nil
}

// Retryable is an external.Policy.Retryable: another attempt may help after any error but a status below 500 that is
// neither 408, 425 nor 429.
func Retryable(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) || status.Code >= http.StatusInternalServerError {
		return true
	}
	switch status.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}
