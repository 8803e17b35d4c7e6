// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector.
type receiver struct {
	t     *testing.T
	mu    sync.Mutex
	spans []*otlp.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(q.Body); err != nil {
			r.t.Error(err)
			return
		}
	}
	b, err := io.ReadAll(io.LimitReader(body, 1<<20))
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &m)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: %v", q.URL.Path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range m.ResourceSpans {
		for _, scope := range all.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// TestSpans: a collector gets the phases of the run as parts of one span, within it.
func TestSpans(t *testing.T) {
	r := &receiver{t: t}
	server := httptest.NewServer(r)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	s := start(t, "", 0, "--horizon", "50", "--replications", "2", "--spread", "nodes")
	if status, said := s.end(); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	s.gone()
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	var whole *otlp.Span
	for _, span := range r.spans {
		if names = append(names, span.Name); len(span.ParentSpanId) == 0 {
			whole = span
		}
	}
	if whole == nil || whole.Name != "run" || len(whole.Attributes) == 0 {
		t.Fatalf("spans %q: the whole is %v", names, whole)
	}
	for _, want := range []string{"read", "partition", "start", "wire", "simulate", "gather", "results", "output"} {
		if !slices.Contains(names, want) {
			t.Errorf("spans %q, want %s too", names, want)
		}
	}
	if n := strings.Count(strings.Join(names, " "), "replication"); n != 2 {
		t.Errorf("spans %q, want 2 replications", names)
	}
	for _, span := range r.spans {
		if span.StartTimeUnixNano < whole.StartTimeUnixNano || span.EndTimeUnixNano > whole.EndTimeUnixNano ||
			span.StartTimeUnixNano > span.EndTimeUnixNano || string(span.TraceId) != string(whole.TraceId) {
			t.Errorf("%v isn't within the run %v", span, whole)
		}
	}
}

// A collector that isn't there costs a remark.
func TestSpansWithoutCollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	server.Close()
	s := start(t, slow, 1, "--web", "0")
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status, said := s.end(); status != 128+int(syscall.SIGINT) {
		t.Errorf("status %d: %s", status, said)
	}
	s.gone()
}
