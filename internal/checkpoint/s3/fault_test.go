// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/storeserver"
)

// soon is how long nothing may move in tests where nothing does.
const soon = 300 * time.Millisecond

// names fails the test where an error doesn't name blob and endpoint, and want.
func names(t *testing.T, s *Store, err error, want ...string) {
	t.Helper()
	for _, text := range append(want, s.String(), s.endpoint) {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// faultyReader does something once, in the middle.
type faultyReader struct {
	io.Reader
	left int
	do   func()
}

func (f *faultyReader) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if f.left > 0 && f.left <= n {
		f.do()
	}
	f.left -= n
	return n, err
}

// TestServerKilledInMidPut: nothing of the blob is there, and what was there stays. When the server is back, the same
// put succeeds, and the next one who takes the lock takes back what was left.
func TestServerKilledInMidPut(t *testing.T) {
	server := start(t)
	s := open(t, server.Addr(), "x")
	s.part = partSmall
	unlock, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := put(s, "points/before", "before"); err != nil {
		t.Fatal(err)
	}
	data := pattern(3 * partSmall)
	size := int64(len(data))
	r := &faultyReader{bytes.NewReader(data), 2*partSmall - 5, func() {
		server.Kill()
		s.quiet.Store(int64(soon)) // nobody reads it: no part is under way that hasn't begun
	}}
	names(t, s, s.Put(t.Context(), "packs/a.pack", r, size, false), "packs/a.pack", "nothing has moved for",
		"connection refused", "check that "+endpointVar+" is right")
	s.quiet.Store(int64(quietMax))
	if err := errors.Join(server.Start(), server.Ready(t.Context())); err != nil {
		t.Fatal(err)
	}
	blobs, err := s.List(t.Context(), "")
	if err != nil || len(blobs) != 2 || blobs[0].Name != checkpoint.LockName || blobs[1].Name != "points/before" {
		t.Errorf("%v, %v, want only the one before, and the lock", blobs, err)
	}
	if err := s.Put(t.Context(), "packs/a.pack", bytes.NewReader(data), size, false); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if unlock, err = s.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	for u := range s.core.ListIncompleteUploads(t.Context(), bucket, "", true) {
		t.Errorf("left is %s, %v", u.Key, u.Err)
	}
}

// TestServerStalls: a call ends when nothing moves, in whatever it does; then the store can be used again. The request
// that stalled may still come through: whole.
func TestServerStalls(t *testing.T) {
	server := start(t)
	f, err := forward.New("", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := open(t, f.Addr(), "x")
	for _, name := range []string{"points/a", "points/b"} {
		if err := put(s, name, "before"); err != nil {
			t.Fatal(err)
		}
	}
	f.Set(forward.Traffic{Held: [2]bool{true, true}})
	s.quiet.Store(int64(soon))
	const want = "nothing has moved for 300ms"
	_, err = s.Get(t.Context(), "points/a", 0, 10, nil)
	names(t, s, err, "points/a", want)
	_, err = s.List(t.Context(), "points/")
	names(t, s, err, want)
	names(t, s, s.Delete(t.Context(), "points/a"), "points/a", want)
	names(t, s, put(s, "points/b", "after"), "points/b", want)
	_, err = s.Lock(t.Context())
	names(t, s, err, want)
	f.Set(forward.Traffic{})
	s.quiet.Store(int64(quietMax))
	if found, err := s.Get(t.Context(), "points/b", 0, 10, nil); err != nil || string(found) != "before" &&
		string(found) != "after" {
		t.Errorf("%q, %v, want one of both", found, err)
	}
}

// TestAnswerBreaksOff: what is read goes on behind the byte at which a connection was cut.
func TestAnswerBreaksOff(t *testing.T) {
	server := start(t)
	s := open(t, server.Addr(), "x")
	data := pattern(1 << 20)
	if err := s.Put(t.Context(), "packs/a", bytes.NewReader(data), int64(len(data)), false); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := 0
	s.transport.turn = func(answer *http.Response) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked < 5 {
			answer.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(answer.Body, 300<<10), answer.Body}
		}
	}
	found, err := s.Get(t.Context(), "packs/a", 10, int64(len(data)), nil)
	if err != nil || !bytes.Equal(found, data[10:]) || asked != 4 {
		t.Errorf("%d bytes in %d requests, %v, want %d in 4", len(found), asked, err, len(data)-10)
	}
}

// TestWrongUse: a message says what to change, and has no credentials.
func TestWrongUse(t *testing.T) {
	server := start(t)
	const other = "another-key-of-this-test"
	for _, c := range []struct {
		address string
		vars    []string
		want    []string
	}{
		{"s3://nosuchbucket/x", nil, []string{"NoSuchBucket", "make the bucket", "s3://nosuchbucket/x"}},
		{"s3://checkpoints/x", []string{keyVar, other}, []string{"check " + keyVar}},
		{"s3://checkpoints/x", []string{secretVar, other}, []string{"SignatureDoesNotMatch", "check " + keyVar}},
		{"s3://checkpoints/x", []string{regionVar, "eu-north-7"}, []string{"set " + regionVar}},
	} {
		_, err := Open(t.Context(), c.address, Config{Getenv: env(server.Addr(), c.vars...)})
		for _, want := range append(c.want, "http://"+server.Addr()) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %v: %v, want %s", c.address, c.vars, err, want)
			}
		}
		for _, secret := range []string{storeserver.S3Key, storeserver.S3Secret, other} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s %v: %v has %s in it", c.address, c.vars, err, secret)
			}
		}
	}
}

// TestCodes: codes of S3 that no server here answers with, among them one that shows the credentials.
func TestCodes(t *testing.T) {
	for code, want := range map[string]string{
		"RequestTimeTooSkewed": "set this machine's clock",
		"AccessDenied":         "s3:PutObject",
		"InvalidAccessKeyId":   "check " + keyVar,
		"InvalidToken":         tokenVar,
		"QuotaExceeded":        "QuotaExceeded",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<Error><Code>"+code+"</Code><Message>about "+storeserver.S3Secret+"</Message></Error>")
		}))
		_, err := Open(t.Context(), "s3://checkpoints", Config{Getenv: env(server.Listener.Addr().String())})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hidden)") ||
			strings.Contains(err.Error(), storeserver.S3Secret) {
			t.Errorf("%s: %v, want %s, and no secret", code, err, want)
		}
		server.Close()
	}
}

// heedless is a server that takes every put, whatever its conditions are.
type heedless struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func (h *heedless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		data, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // a short one shows in the test
		h.blobs[r.URL.Path] = data
		w.Header().Set("ETag", `"x"`)
	case http.MethodDelete:
		delete(h.blobs, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	default:
		data, there := h.blobs[r.URL.Path]
		if r.URL.RawQuery != "" {
			data, there = []byte("<ListBucketResult></ListBucketResult>"), true
		}
		if !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Write(data)
	}
}

// TestHeedless: a store without conditional writes is refused, and the lock taken back.
func TestHeedless(t *testing.T) {
	h := &heedless{blobs: map[string][]byte{}}
	server := httptest.NewServer(h)
	defer server.Close()
	s := open(t, server.Listener.Addr().String(), "x")
	_, err := s.Lock(t.Context())
	names(t, s, err, "want a store with conditional writes")
	if len(h.blobs) > 0 {
		t.Errorf("left is %v", h.blobs)
	}
	// One that gives another part than was asked for.
	if err := put(s, "points/a", "abcdef"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), "points/a", 3, 2, nil)
	names(t, s, err, "points/a", "one that begins at byte 3")
}

// slowParts is a server that takes its time for each part, and notes whether parts were taken back meanwhile.
type slowParts struct {
	mu              sync.Mutex
	begun, underWay int
	taken, early    bool
}

func (p *slowParts) count(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay += by
	p.begun += max(by, 0)
}

func (p *slowParts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
	case http.MethodPut:
		p.count(1)
		io.Copy(io.Discard, r.Body) // a short one is the client's affair
		time.Sleep(soon)            // whether the client still listens or not, as real ones do
		w.Header().Set("ETag", `"x"`)
		p.count(-1)
	case http.MethodDelete:
		p.mu.Lock()
		p.taken, p.early = true, p.underWay > 0
		p.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}
}

// TestNoPartUnderWay: parts are taken back when none is under way, which the store would keep.
func TestNoPartUnderWay(t *testing.T) {
	p := new(slowParts)
	server := httptest.NewServer(p)
	defer server.Close()
	s := open(t, server.Listener.Addr().String(), "x")
	s.part = partSmall
	size := int64(3 * partSmall)
	err := s.Put(t.Context(), "packs/a.pack", bytes.NewReader(pattern(int(size)-1)), size, false)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want that it ends too early", err)
	}
	if p.mu.Lock(); p.begun != 2 || !p.taken || p.early {
		t.Errorf("%d parts, taken back %v, while some were under way %v, want 2, and none", p.begun, p.taken, p.early)
	}
	p.mu.Unlock()
}

// TestLostAnswers: a put whose answer was lost was done, though the same one again is refused.
func TestLostAnswers(t *testing.T) {
	server := start(t)
	s := open(t, server.Addr(), "x")
	s.part = partSmall
	var mu sync.Mutex
	lost, times := map[string]bool{}, 0
	s.transport.turn = func(answer *http.Response) {
		mu.Lock()
		defer mu.Unlock()
		r := answer.Request
		if kind := r.Method + r.URL.Path; (r.Method == http.MethodPut && r.URL.RawQuery == "" ||
			r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId")) && !lost[kind] {
			lost[kind] = true
			times++
			answer.StatusCode, answer.Status = http.StatusBadGateway, "502 Bad Gateway"
		}
	}
	big := pattern(partSmall + 1)
	for name, data := range map[string][]byte{"run.json": []byte("small"), "packs/a": big} {
		if err := s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data)), true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data)), true)
		if !errors.Is(err, checkpoint.ErrExists) {
			t.Errorf("%s, a second time: %v, want ErrExists", name, err)
		}
	}
	unlock, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	clear(lost) // the renewal's answer is lost, too
	mu.Unlock()
	if err := s.held.renew(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := put(s, "points/a", "a"); err != nil {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if times != 5 { // small, packs/a, lock, lock, points/a
		t.Errorf("%d answers were lost, want 5", times)
	}
}
