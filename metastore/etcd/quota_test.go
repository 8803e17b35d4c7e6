// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/disco-sim/disco/metastore"
)

// fillUp writes nine keys of 100 kB at once below a directory, again and again, until the store refuses them, and
// returns what it says.
func fillUp(ctx context.Context, t *testing.T, s *metastore.Store, dir string, most int) (err error) {
	t.Helper()
	raw, err := s.Encode(strings.Repeat("x", 100_000))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < most && (err == nil || errors.Is(err, metastore.ErrUnknown)); n++ {
		var ops []metastore.Op
		for i := range 9 {
			ops = append(ops, metastore.Op{Path: fmt.Sprintf("%s/%d/%d", dir, n, i), Do: metastore.Set, Value: raw})
		}
		err = s.Commit(ctx, nil, ops)
	}
	return err
}

// openStore opens the store with a client of its own.
func openStore(ctx context.Context, t *testing.T, addrs []string) *metastore.Store {
	t.Helper()
	s, err := metastore.New(ctx, one(t, addrs), metastore.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestQuota: a store whose quota is used up refuses writes with what is to be done, still reads and deletes, also for
// who comes newly, and takes writes again by itself once enough has been deleted; with one server and with three.
func TestQuota(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			z := start(t, n, "--quota", "16")
			s := openStore(ctx, t, z.Addrs())
			began := time.Now()
			err := fillUp(ctx, t, s, "big", 100)
			if !errors.Is(err, rpctypes.ErrNoSpace) || !strings.Contains(err.Error(), "was written: delete keys") {
				t.Fatal(err)
			}
			t.Logf("after %v: %v", time.Since(began), err)
			told := func() (all string) {
				for _, server := range z.Servers {
					all += server.Output()
				}
				return all
			}
			// What was only history or free space is used again; then it stays closed, and the server says so.
			for n := 0; !strings.Contains(told(), "the quota of 16 MiB is used up: reads and deletes only"); n++ {
				if err := fillUp(ctx, t, s, fmt.Sprint("more/", n), 100); ctx.Err() != nil {
					t.Fatal(err, told())
				}
				time.Sleep(20 * time.Millisecond)
			}
			late := openStore(ctx, t, z.Addrs())
			if names, err := late.Members(ctx, "big"); err != nil || len(names) < 10 {
				t.Errorf("found %d keys, %v", len(names), err)
			}
			if err := s.Put(ctx, "small", 1); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("found %v", err)
			}
			if err := errors.Join(late.DeleteTree(ctx, "big"), late.DeleteTree(ctx, "more")); err != nil {
				t.Fatal(err)
			}
			for err = s.Put(ctx, "small", 2); err != nil; err = s.Put(ctx, "small", 2) {
				if !errors.Is(err, rpctypes.ErrNoSpace) && !errors.Is(err, metastore.ErrUnknown) {
					t.Fatalf("%v\n%s", err, told())
				}
				time.Sleep(50 * time.Millisecond)
			}
			// A server that hasn't made room yet may refuse some of it.
			for err = fillUp(ctx, t, s, "again", 10); err != nil; err = fillUp(ctx, t, s, "again", 10) {
				if !errors.Is(err, rpctypes.ErrNoSpace) || ctx.Err() != nil {
					t.Fatalf("9 MB don't fit into 16 MiB: %v\n%s", err, told())
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Log(time.Since(began), told())
		})
	}
}

// A server that is started again with a larger quota takes writes again.
func TestLargerQuota(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	z := start(t, 1, "--quota", "16")
	s := openStore(ctx, t, z.Addrs())
	if err := fillUp(ctx, t, s, "big", 100); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	server := z.Servers[0]
	server.Kill()
	server.Flags("--quota", "32")
	if err := errors.Join(server.Start(), server.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	for err := errors.New(""); err != nil; err = s.Put(ctx, "small", 2) {
		if ctx.Err() != nil {
			t.Fatalf("%v\n%s", err, server.Output())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// deep is n Creates of nodes that share no parent, each with so many nodes above it, under the condition that each is
// missing where asked.
func deep(n, above int, conds bool) (c []metastore.Cond, ops []metastore.Op) {
	for i := range n {
		path := fmt.Sprintf("/%d%s", i, strings.Repeat("/p", above))
		ops = append(ops, metastore.Op{Path: path, Do: metastore.Create, Value: []byte("v")})
		if conds {
			c = append(c, metastore.Cond{Path: path, Is: metastore.Missing})
		}
	}
	return c, ops
}

// TestTransactionSize: what an etcd with the --max-txn-ops that it has by itself takes, 128, and what it doesn't.
func TestTransactionSize(t *testing.T) {
	const usual = 128
	var sets, deletes, trees []metastore.Op
	var at []metastore.Cond
	for i := range metastore.MaxOps {
		path := fmt.Sprintf("/disco/cluster/servers/h%d", i)
		sets = append(sets, metastore.Op{Path: path, Do: metastore.Set, Value: []byte("v")})
		deletes = append(deletes, metastore.Op{Path: path, Do: metastore.Delete})
		at = append(at, metastore.Cond{Path: path, Is: metastore.At, Version: metastore.Version{Changed: 1}})
		trees = append(trees, metastore.Op{Path: path, Do: metastore.DeleteTree})
	}
	guarded := []metastore.Cond{{Path: "/disco/cluster/leader/candidates/c", Is: metastore.At}}
	type conds = []metastore.Cond
	half, full := metastore.MaxOps/2, metastore.MaxOps
	missing, creates := deep(half, 1, true)
	_, alone := deep(full, 0, false)
	_, deepest := deep(full, 80, false)
	for _, c := range []struct {
		name  string
		conds conds
		ops   []metastore.Op
		size  int
	}{
		{"Sets of one directory", nil, sets, full + 1}, // and the transaction in it
		{"Sets with their versions", at[:half], sets[:half], half},
		{"Deletes under a guard", guarded, deletes[:full-1], full - 1},
		{"conditions only", at, nil, full},
		{"Creates at the top", nil, alone, full},
		{"Creates one below the top, under conditions", missing, creates, 2 * half},
		{"trees", nil, trees[:half], 2 * half},
		{"trees, the most", nil, trees, 2 * full},
		{"deep Creates that share nothing", nil, deepest, full * 81},
	} {
		if err := metastore.CheckCommit(c.conds, c.ops); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		x, err := newTxn(&Backend{}, c.conds, c.ops, false)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if n := x.size(); n != c.size {
			t.Errorf("%s: a transaction of %d, want %d (usual: %d)", c.name, n, c.size, usual)
		}
	}
	if gatherMax > usual {
		t.Errorf("%d keys are read at once", gatherMax)
	}
}

// TestTooManyComparisons: a commit that a server won't take as one transaction is refused with its size, and nothing of
// it has been written; a smaller one passes.
func TestTooManyComparisons(t *testing.T) {
	b, ctx := one(t, start(t, 1).Addrs()), t.Context()
	_, ops := deep(metastore.MaxOps, 82, false)
	err := b.Commit(ctx, nil, ops)
	if !errors.Is(err, metastore.ErrTooLarge) || !strings.Contains(err.Error(), "a transaction of 8300, ") {
		t.Errorf("found %v", err)
	}
	t.Log(err)
	if all, err := b.Tree(ctx, "/"); err != nil || len(all) > 0 {
		t.Errorf("%d nodes were written, %v", len(all), err)
	}
	if _, ops = deep(metastore.MaxOps, 80, false); b.Commit(ctx, nil, ops) != nil {
		t.Error(b.Commit(ctx, nil, ops))
	}
	// Within the number, beyond the bytes.
	_, ops = deep(metastore.MaxOps, 0, false)
	for i := range ops {
		ops[i].Path += strings.Repeat("/"+string(bytes.Repeat([]byte("n"), 15)), 60)
	}
	if err = b.Commit(ctx, nil, ops); !errors.Is(err, metastore.ErrTooLarge) {
		t.Errorf("found %v", err)
	}
	t.Log(err)
}
