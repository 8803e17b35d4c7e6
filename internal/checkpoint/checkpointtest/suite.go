// SPDX-License-Identifier: Apache-2.0

// Package checkpointtest is what every place for checkpoints passes: each rule of checkpoint.Blobs is a case. It has
// such a place in memory, and one that fails on demand.
//
// Guarantee: where Run passes, a checkpoint.Repo keeps what it guarantees.
//
//	func TestBlobs(t *testing.T) {
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs { return checkpoint.NewDir(t.TempDir()) })
//	}
package checkpointtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// Run tests what open gives: an empty place each time.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Blobs) {
	for name, test := range map[string]func(*testing.T, checkpoint.Blobs){
		"put and get": putAndGet,
		"short":       putShort,
		"from itself": putFromItself,
		"only new":    putOnlyNew,
		"one wins":    putAtOnce,
		"list":        list,
		"delete":      deleteSome,
		"lock":        lock,
		"canceled":    canceled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func put(b checkpoint.Blobs, name, text string, onlyNew bool) error {
	return b.Put(context.Background(), name, strings.NewReader(text), int64(len(text)), onlyNew)
}

// want fails the test where a blob isn't text; "" stands for none.
func want(t *testing.T, b checkpoint.Blobs, name, text string) {
	t.Helper()
	data, err := b.Get(context.Background(), name, 0, 1<<20, nil)
	var missing *checkpoint.MissingError
	if text == "" {
		if !errors.As(err, &missing) {
			t.Errorf("%s: %q, %v, want *MissingError", name, data, err)
		}
		return
	}
	if err != nil || string(data) != text {
		t.Errorf("%s: %.40q, %v, want %.40q", name, data, err, text)
	}
}

// putFromItself: what is written may be read from the same place meanwhile, as Draft.Commit copies chunks of old packs.
func putFromItself(t *testing.T, b checkpoint.Blobs) {
	text := strings.Repeat("0123456789abcdef", 1<<18)
	if err := put(b, "packs/old.pack", text, false); err != nil {
		t.Fatal(err)
	}
	from := io.NewSectionReader(itself{b}, 0, int64(len(text)))
	if err := b.Put(context.Background(), "packs/new.pack", from, int64(len(text)), false); err != nil {
		t.Fatal(err)
	}
	data, err := b.Get(context.Background(), "packs/new.pack", 0, int64(len(text))+1, nil)
	if err != nil || string(data) != text {
		t.Errorf("found %d bytes, %v, want the %d that were read", len(data), err, len(text))
	}
}

// itself reads a blob.
type itself struct{ checkpoint.Blobs }

func (i itself) ReadAt(b []byte, at int64) (int, error) {
	data, err := i.Get(context.Background(), "packs/old.pack", at, int64(len(b)), nil)
	n := copy(b, data)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func putAndGet(t *testing.T, b checkpoint.Blobs) {
	want(t, b, "packs/a.pack", "")
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // some parts of what is copied at once
	for _, text := range []string{"first", "second, in its place", string(large[:len(large)-1])} {
		if err := put(b, "packs/a.pack", text, false); err != nil {
			t.Fatal(err)
		}
		want(t, b, "packs/a.pack", text)
	}
	if err := put(b, "empty", "", false); err != nil {
		t.Fatal(err)
	}
	if data, err := b.Get(context.Background(), "empty", 0, 10, nil); err != nil || len(data) != 0 {
		t.Errorf("an empty blob: %q, %v", data, err)
	}
	for _, c := range []struct {
		from, size int64
		text       string
	}{{0, 4, "0123"}, {3, 2, "34"}, {int64(len(large)) - 3, 100, "de"}, {1 << 40, 10, ""}, {5, 0, ""}} {
		data, err := b.Get(context.Background(), "packs/a.pack", c.from, c.size, nil)
		if err != nil || string(data) != c.text {
			t.Errorf("%d bytes from %d: %q, %v, want %q", c.size, c.from, data, err, c.text)
		}
	}
}

// putShort: a reader that ends too early leaves nothing, and what was there stays.
func putShort(t *testing.T, b checkpoint.Blobs) {
	for _, before := range []string{"", "before"} {
		if before != "" {
			if err := put(b, "points/a", before, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Put(context.Background(), "points/a", strings.NewReader("abc"), 4, false); err == nil {
			t.Error("three bytes of four are no error")
		}
		want(t, b, "points/a", before)
	}
	if err := b.Put(context.Background(), "points/a", strings.NewReader("abcdef"), 4, false); err != nil {
		t.Fatal(err)
	}
	want(t, b, "points/a", "abcd")
}

func putOnlyNew(t *testing.T, b checkpoint.Blobs) {
	if err := put(b, "run.json", "first", true); err != nil {
		t.Fatal(err)
	}
	if err := put(b, "run.json", "second", true); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("a second one: %v, want ErrExists", err)
	}
	want(t, b, "run.json", "first")
}

// putAtOnce: of several new ones exactly one succeeds, and it is whole.
func putAtOnce(t *testing.T, b checkpoint.Blobs) {
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	texts := make([]string, writers)
	for w := range writers {
		texts[w] = strings.Repeat(fmt.Sprintf("writer %d ", w), 1000)
		wg.Go(func() { errs[w] = put(b, "run.json", texts[w], true) })
	}
	wg.Wait()
	winner := -1
	for w, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = w
		case !errors.Is(err, checkpoint.ErrExists):
			t.Errorf("writer %d: %v, beside writer %d that succeeded", w, err, winner)
		}
	}
	if winner < 0 {
		t.Fatal("none succeeded")
	}
	want(t, b, "run.json", texts[winner])
}

func names(t *testing.T, b checkpoint.Blobs, prefix string) string {
	t.Helper()
	blobs, err := b.List(context.Background(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, blob := range blobs {
		text += fmt.Sprintf("%s:%d ", blob.Name, blob.Size)
	}
	return strings.TrimSpace(text)
}

func list(t *testing.T, b checkpoint.Blobs) {
	if found := names(t, b, "") + names(t, b, "points/"); found != "" {
		t.Fatalf("an empty place has %s", found)
	}
	for _, name := range []string{"run.json", "points/b", "points/a", "packs/c", "labels/x"} {
		if err := put(b, name, name, false); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, list := range map[string]string{
		"":        "labels/x:8 packs/c:7 points/a:8 points/b:8 run.json:8",
		"points/": "points/a:8 points/b:8",
		"done/":   "",
	} {
		if found := names(t, b, prefix); found != list {
			t.Errorf("%q lists %s, want %s", prefix, found, list)
		}
	}
}

func deleteSome(t *testing.T, b checkpoint.Blobs) {
	for _, name := range []string{"points/a", "points/b", "packs/c"} {
		if err := put(b, name, name, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(context.Background(), "points/a", "points/none", "packs/c", "done/none"); err != nil {
		t.Fatal(err)
	}
	if found := names(t, b, ""); found != "points/b:8" {
		t.Errorf("left is %s, want points/b", found)
	}
	if err := b.Delete(context.Background()); err != nil {
		t.Error(err)
	}
}

func lock(t *testing.T, b checkpoint.Blobs) {
	unlock, err := b.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	if _, err := b.Lock(context.Background()); !errors.As(err, &locked) || locked.Where != b.String() {
		t.Errorf("a second lock: %v, want *LockedError", err)
	}
	for range 2 {
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		if unlock, err = b.Lock(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// canceled: nothing is stored or deleted for a context that has ended.
func canceled(t *testing.T, b checkpoint.Blobs) {
	if err := put(b, "points/a", "a", false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, errGet := b.Get(ctx, "points/a", 0, 1, nil)
	_, errList := b.List(ctx, "")
	for what, err := range map[string]error{
		"Put":    b.Put(ctx, "points/b", strings.NewReader("b"), 1, false),
		"Delete": b.Delete(ctx, "points/a"),
		"Get":    errGet,
		"List":   errList,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error", what, err)
		}
	}
	want(t, b, "points/a", "a")
	want(t, b, "points/b", "")
}
