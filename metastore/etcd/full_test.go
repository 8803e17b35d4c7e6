// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// TestDiskFull: a server whose disk gets full ends with a message. When there is room again it has all that was
// acknowledged, and its client goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=192m"); err != nil {
		t.Skip("SKIPPED: a small disk can't be made here: ", err)
	}
	defer func() { _ = syscall.Unmount(dir, 0) }()
	s, err := storeserver.NewEtcd(filepath.Join(dir, "server"))
	storeserver.Need(t, err)
	defer s.Kill()
	if err := errors.Join(s.Start(), s.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	b := one(t, []string{s.Addr()})
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	last := -1
	for failed := false; !failed; {
		short, stop := context.WithTimeout(ctx, 3*time.Second)
		value := append(bytes.Repeat([]byte("x"), 100_000), fmt.Sprint(last+1)...)
		err := b.Commit(short, nil, []metastore.Op{{Path: "/v", Do: metastore.Set, Value: value}})
		stop()
		if failed = err != nil; !failed {
			last++
		}
	}
	code, err := s.Wait(ctx)
	if text := s.Output(); code != 1 || err != nil || !strings.Contains(text, "the disk is full; make room") {
		t.Errorf("the server ended with code %d, %v: %s", code, err, text)
	}
	s.Kill()
	if err := errors.Join(os.Remove(filler), s.Start(), s.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	n, err := b.Get(ctx, "/v")
	if text := strings.TrimLeft(string(n.Value), "x"); err != nil ||
		text != fmt.Sprint(last) && text != fmt.Sprint(last+1) {
		t.Errorf("found %q, %v, want %d or the one after it", text, err, last)
	}
	t.Logf("%d values were acknowledged", last+1)
}

// fill writes a file until the disk is nearly full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	info, statErr := f.Stat()
	if !errors.Is(err, syscall.ENOSPC) || statErr != nil {
		t.Fatal(err, statErr)
	}
	if err := f.Truncate(max(info.Size()-2<<20, 0)); err != nil {
		t.Fatal(err)
	}
}
