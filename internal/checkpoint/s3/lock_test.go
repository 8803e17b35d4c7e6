// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// later makes a store's clock, as a Store sees it, run ahead.
func later(s *Store, by *atomic.Int64) {
	s.transport.turn = func(answer *http.Response) {
		if now, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			answer.Header.Set("Date", now.Add(time.Duration(by.Load())).UTC().Format(http.TimeFormat))
		}
	}
}

// ticks gives a Store a clock that a test turns: now, and when to renew.
func ticks(s *Store) (now *atomic.Int64, renew chan time.Time) {
	begin := time.Now()
	now, renew = &atomic.Int64{}, make(chan time.Time)
	s.clock = clock{now: func() time.Time { return begin.Add(time.Duration(now.Load())) },
		after: func(time.Duration) <-chan time.Time { return renew }}
	return now, renew
}

// locked fails the test where a lock isn't refused because of that owner.
func locked(t *testing.T, s *Store, owner string) {
	t.Helper()
	var held *checkpoint.LockedError
	if _, err := s.Lock(t.Context()); !errors.As(err, &held) || !strings.HasPrefix(held.Owner, owner) {
		t.Errorf("%v, want *LockedError about %q", err, owner)
	}
}

// TestLockTakenOver: the lock of a writer that was killed is free when it is 60 s old by the store's clock, whatever
// those of the machines show. The writer that lost it, because it was only slow, writes nothing any more, and doesn't
// take the other's lock away.
func TestLockTakenOver(t *testing.T) {
	server := start(t)
	a, b, c := open(t, server.Addr(), "x"), open(t, server.Addr(), "x"), open(t, server.Addr(), "x")
	nowA, _ := ticks(a)
	nowB, _ := ticks(b)
	nowB.Store(int64(-36 * time.Hour)) // a clock that is wrong
	var ahead atomic.Int64
	later(b, &ahead)
	unlockA, err := a.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	locked(t, b, a.owner+" (last sign of life ")
	ahead.Store(int64(freeAfter - 20*time.Second))
	locked(t, b, a.owner)
	if err := put(a, "points/a", "a"); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(freeAfter + time.Second))
	unlockB, err := b.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := put(b, "points/b", "b"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"put": put(a, "points/late", "late"),
		"delete": a.Delete(t.Context(), "points/b")} {
		var held *checkpoint.LockedError
		if !errors.As(err, &held) || !strings.Contains(held.Owner, b.owner) {
			t.Errorf("%s of the writer that lost its lock: %v, want *LockedError about %s", what, err, b.owner)
		}
	}
	nowA.Add(int64(2 * freeAfter)) // and later it doesn't take it back
	if err := put(a, "points/late", "late"); err == nil {
		t.Error("much later it writes again")
	}
	if err := unlockA(); err != nil {
		t.Error(err)
	}
	locked(t, c, b.owner)
	if err := unlockB(); err != nil {
		t.Error(err)
	}
	blobs, err := c.List(t.Context(), "")
	if err != nil || len(blobs) != 2 {
		t.Errorf("%v, %v, want points/a and points/b", blobs, err)
	}
}

// TestLockRenewed: a writer that lives keeps its lock, and one that was suspended, or cut off, has it again where
// nobody has taken it.
func TestLockRenewed(t *testing.T) {
	server := start(t)
	a, b := open(t, server.Addr(), "x"), open(t, server.Addr(), "x")
	nowA, renew := ticks(a)
	unlock, err := a.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	number := func() uint64 {
		found, err := b.readLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found.Number
	}
	first := number()
	for range 3 {
		renew <- time.Time{}
	}
	// The third one was begun, so the second one is done.
	if n := number(); n < first+2 {
		t.Errorf("after two renewals the lock has number %d, want %d at least", n, first+2)
	}
	before := number()
	nowA.Add(int64(10 * freeAfter))
	if err := put(a, "points/a", "a"); err != nil {
		t.Errorf("after ten minutes without a renewal: %v", err)
	}
	if n := number(); n <= before {
		t.Errorf("it writes with a lock of number %d that may be another's by now", n)
	}
	locked(t, b, a.owner)
	for range 2 {
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
	unlock, err = b.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestLockGone: a lock that somebody has removed ends writing, too, and isn't made again.
func TestLockGone(t *testing.T) {
	server := start(t)
	a, b := open(t, server.Addr(), "x"), open(t, server.Addr(), "x")
	unlock, err := a.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), checkpoint.LockName); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := put(a, "points/a", "a"); err == nil || !strings.Contains(err.Error(), "its lock is gone") {
			t.Errorf("%v, want that the lock is gone", err)
		}
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestLockText: what isn't a lock's text is a lock all the same.
func TestLockText(t *testing.T) {
	server := start(t)
	a, b := open(t, server.Addr(), "x"), open(t, server.Addr(), "x")
	var ahead atomic.Int64
	later(b, &ahead)
	for _, text := range []string{"", "{", strings.Repeat("x", 3*lockBytesMax)} {
		if err := put(a, checkpoint.LockName, text); err != nil {
			t.Fatal(err)
		}
		ahead.Store(0)
		locked(t, b, "")
		ahead.Store(int64(2 * freeAfter))
		unlock, err := b.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
}

// TestLockSweeps: who takes the lock takes back what a writer that was killed had sent in parts, and nothing of others.
func TestLockSweeps(t *testing.T) {
	server := start(t)
	a, b := open(t, server.Addr(), "x"), open(t, server.Addr(), "other")
	for s, name := range map[*Store]string{a: "packs/a.pack", b: "packs/b.pack"} {
		for _, name := range []string{name, "notes/n"} {
			if _, err := s.core.NewMultipartUpload(t.Context(), bucket, s.key(name), (&write{}).options()); err != nil {
				t.Fatal(err)
			}
		}
	}
	unlock, err := a.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	var left []string
	for u := range a.core.ListIncompleteUploads(t.Context(), bucket, "", true) {
		left = append(left, u.Key)
	}
	if got := strings.Join(left, " "); got != "other/notes/n other/packs/b.pack x/notes/n" {
		t.Errorf("left is %s, want all but x/packs/a.pack", got)
	}
}
