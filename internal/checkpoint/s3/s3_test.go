// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
)

// TestBlobs: it is a place for checkpoints, on a server that is started here, or on that of DISCO_S3_TEST.
func TestBlobs(t *testing.T) {
	n := 0
	if os.Getenv("DISCO_S3_TEST") != "" {
		checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
			n++
			return elsewhere(t, fmt.Sprintf("blobs-%s-%d", rand.Text(), n))
		})
		return
	}
	server := start(t)
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
		n++
		return open(t, server.Addr(), fmt.Sprintf("runs/%d", n))
	})
}

// pattern is data of which each part differs.
func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range size / 8 {
		binary.LittleEndian.PutUint64(data[8*i:], uint64(i))
	}
	return data
}

// TestParts: a blob of several parts, the last one short, is the same as it was; onlyNew holds at its end; one that
// ends too early leaves nothing, not even parts.
func TestParts(t *testing.T) {
	s := open(t, start(t).Addr(), "parts")
	s.part = partSmall
	data := pattern(5*partSmall + 12345) // more than are under way at once
	for range 2 {
		if err := s.Put(t.Context(), "packs/a.pack", bytes.NewReader(data), int64(len(data)), false); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Put(t.Context(), "packs/a.pack", bytes.NewReader(data), int64(len(data)), true)
	if !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("a second one: %v, want ErrExists", err)
	}
	err = s.Put(t.Context(), "packs/b.pack", bytes.NewReader(data[:len(data)-1]), int64(len(data)), false)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("one that ends too early: %v", err)
	}
	buf := make([]byte, 0, len(data))
	found, err := s.Get(t.Context(), "packs/a.pack", 0, 1<<40, buf)
	if err != nil || !bytes.Equal(found, data) || &found[0] != &buf[:1][0] {
		t.Errorf("%d bytes, %v, want the same %d in the memory that was given", len(found), err, len(data))
	}
	blobs, err := s.List(t.Context(), "")
	if err != nil || len(blobs) != 1 {
		t.Errorf("%v, %v, want the one", blobs, err)
	}
	for u := range s.core.ListIncompleteUploads(t.Context(), bucket, "", true) {
		t.Errorf("left is %s, %v", u.Key, u.Err)
	}
	s.part = partLeast
	for size, want := range map[int64]int64{1: partLeast, partLeast * partsMax: partLeast,
		partLeast*partsMax + 1: partLeast + 1, 1 << 40: 109951163} {
		if each := s.partBytes(size); each != want || (size+each-1)/each > partsMax {
			t.Errorf("%d bytes are sent in parts of %d, want %d", size, each, want)
		}
	}
}

// TestRepo: a Repo on it is what one in a directory is.
func TestRepo(t *testing.T) {
	s := open(t, start(t).Addr(), "a/run")
	ctx := t.Context()
	repo, err := checkpoint.Create(ctx, s, run())
	if err != nil {
		t.Fatal(err)
	}
	var other *checkpoint.OtherRunError
	if _, err := checkpoint.Create(ctx, s, run()); !errors.As(err, &other) {
		t.Errorf("a bucket that another run uses: %v, want *OtherRunError", err)
	}
	if err := repo.Begin().Commit(ctx, &checkpoint.Manifest{Epoch: 5}); err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := repo.Find(ctx, "latest", 0)
	if err != nil || m.Epoch != 5 {
		t.Errorf("%v, %v, want epoch 5", m, err)
	}
	// Something that is no Repo's is found without a look at all that is in there.
	foreign := open(t, strings.TrimPrefix(s.endpoint, "http://"), "foreign")
	if err := put(foreign, "photos/2026/a.jpg", "x"); err != nil {
		t.Fatal(err)
	}
	var not *checkpoint.NotRepoError
	if _, err := checkpoint.Create(ctx, foreign, run()); !errors.As(err, &not) || not.Found != "photos/" {
		t.Errorf("a prefix with something else: %v, want *NotRepoError", err)
	}
}

func run() checkpoint.Run {
	return checkpoint.Run{Kind: "phold", File: "p.yml", Text: []byte("model: phold\n"), Replications: 1, Horizon: 10,
		Nodes: 4, Simprocs: 4, GroupNodes: 1}
}

// TestTooManyNames: a list is bounded.
func TestTooManyNames(t *testing.T) {
	s := open(t, start(t).Addr(), "names")
	for i := range 4 {
		if err := put(s, fmt.Sprintf("points/%d", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	s.namesMax = 4
	if blobs, err := s.List(t.Context(), "points/"); err != nil || len(blobs) != 4 {
		t.Errorf("%v, %v, want 4", blobs, err)
	}
	s.namesMax = 3
	if _, err := s.List(t.Context(), "points/"); err == nil || !strings.Contains(err.Error(), "more than 3 names") {
		t.Errorf("%v, want more than 3 names", err)
	}
}

// TestAddresses: what can't be a store's address, or environment, is refused before anybody is asked.
func TestAddresses(t *testing.T) {
	long := "s3://bucket/" + strings.Repeat("a", prefixBytesMax+1)
	for address, want := range map[string]string{
		"dir":                "begins with s3://",
		"s3://":              "want s3://BUCKET",
		"s3:///x":            "want s3://BUCKET",
		"s3://Bucket/x":      "want s3://BUCKET",
		"s3://ab":            `found the bucket "ab"`,
		"s3://192.168.5.4/x": "no IP address",
		"s3://a..b/x":        "no dot beside a dot",
		"s3://a_b/x":         "lower-case letters, digits, dots and hyphens",
		"s3://-ab/x":         "a letter or digit at both ends",
		"s3://bucket/a//b":   `found the prefix "a//b"`,
		"s3://bucket/a/../b": `found the prefix "a/../b"`,
		"s3://bucket/a?b":    `found the prefix "a?b"`,
		long:                 "the prefix has 513 bytes",
	} {
		_, err := Open(t.Context(), address, Config{Getenv: env("127.0.0.1:1")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	for below, want := range map[int]string{0: "", 508: "", 509: "prefix has 4 bytes, want at most 3"} {
		if err := Check("s3://bucket/a/b", below); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("with %d bytes below it: %v, want %s", below, err, want)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{keyVar, "", "set " + keyVar},
		{secretVar, "", "set " + keyVar},
		{endpointVar, "127.0.0.1:9000", "want https://HOST"},
		{endpointVar, "https://user:password@host", "want https://HOST"},
		{endpointVar + "_S3", "https://host/folder", "want https://HOST"},
	} {
		_, err := Open(t.Context(), "s3://bucket", Config{Getenv: env("127.0.0.1:1", c.name, c.value)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "password") {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
	for address, want := range map[string]string{"s3://bucket": "s3://bucket", "s3://bucket/": "s3://bucket",
		"s3://bucket/a/b//": "s3://bucket/a/b"} {
		if s, err := newStore(address, Config{Getenv: env("127.0.0.1:1")}); err != nil || s.String() != want {
			t.Errorf("%s is %v, %v, want %s", address, s, err, want)
		}
	}
	// Amazon's own, where nothing else is named.
	if text, _, secure, err := endpointOf(func(string) string { return "" }); err != nil || !secure ||
		text != "https://s3.amazonaws.com" {
		t.Errorf("%s, %v, %v", text, secure, err)
	}
	if err := (&Store{}).Delete(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestRequests: what docs/checkpoints-s3.md says of requests.
func TestRequests(t *testing.T) {
	s := open(t, start(t).Addr(), "x")
	var requests atomic.Int64
	s.transport.turn = func(*http.Response) { requests.Add(1) }
	count := func(what string, want int64, f func() error) {
		t.Helper()
		requests.Store(0)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		if n := requests.Load(); n != want {
			t.Errorf("%s takes %d requests, want %d", what, n, want)
		}
	}
	ctx := t.Context()
	var repo *checkpoint.Repo
	count("create", 7, func() (err error) {
		repo, err = checkpoint.Create(ctx, s, run())
		return err
	})
	for epoch := range 3 {
		var spool bytes.Buffer
		c, err := checkpoint.NewSpool(&spool).Add(checkpoint.Chunk{Kind: checkpoint.Nodes, Nodes: 1},
			[]byte{byte(epoch)})
		if err != nil {
			t.Fatal(err)
		}
		count("commit", 7, func() error {
			d := repo.Begin()
			err := d.Add(bytes.NewReader(spool.Bytes()), int64(spool.Len()), []checkpoint.Chunk{c})
			return errors.Join(err, d.Commit(ctx, &checkpoint.Manifest{Epoch: float64(epoch + 1)}))
		})
	}
	count("latest", 3, func() error {
		_, err := repo.Find(ctx, "latest", 0)
		return err
	})
	count("prune", 11, func() error {
		_, err := repo.Prune(ctx, 1)
		return err
	})
	count("renew", 1, func() error { return s.held.renew(ctx, 0) })
	count("unlock", 2, repo.Close)
	s.part = partSmall
	data := pattern(2*partSmall + 1)
	count("parts", 5, func() error {
		return s.Put(ctx, "packs/x", bytes.NewReader(data), int64(len(data)), false)
	})
}
