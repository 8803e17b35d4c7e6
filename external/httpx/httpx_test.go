// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A service gets the request with its key, and is asked again where that may help.
func TestPost(t *testing.T) {
	var asked atomic.Int32
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			fmt.Fprint(w, r.Method, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("Idempotency-Key"), " ",
				r.Header.Get("X-More"), " ", string(body))
		case "/busy":
			if n < 3 {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, n)
		case "/wrong":
			http.Error(w, "no such product", http.StatusNotFound)
		case "/large":
			w.Write(make([]byte, external.BytesMax+1))
		case "/slow":
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}
	}))
	defer server.Close()
	defer close(stop)
	defer server.Client().CloseIdleConnections()
	for _, c := range []struct {
		path, answer, failure string
		attempts              int
	}{
		{"/echo", "POST application/json thekey 1 hello", "", 1},
		{"/busy", "3", "", 3},
		{"/wrong", "", "status 404 Not Found: no such product", 1},
		{"/large", "", "16777217 bytes, want at most 16777216", 1},
		{"/slow", "", "no answer within 1s", 5},
		{"\x7f", "", "invalid control character", 5},
	} {
		asked.Store(0)
		x := external.External{Name: "service", Ask: Post{URL: server.URL + c.path, ContentType: "application/json",
			Header: map[string]string{"X-More": "1"}, Client: server.Client()}.Ask,
			Policy: external.Policy{Attempts: 5, BaseDelay: time.Millisecond, Timeout: 20 * time.Second,
				Retryable: Retryable}}
		if c.path == "/slow" {
			x.Policy.Timeout = time.Second
		}
		r, err := x.Do(t.Context(), "thekey", []byte("hello"))
		if err != nil || string(r.Answer) != c.answer && c.failure == "" || !strings.Contains(r.Failure, c.failure) ||
			r.Attempts != c.attempts {
			t.Errorf("%s: %.100q, %q after %d attempts, %v; want %+v", c.path, r.Answer, r.Failure, r.Attempts, err, c)
		}
	}
}
