// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/metastore"
)

// TestLimitedUser: who may use one prefix, and read the key of each directory above it, can use queues there, and
// nothing beside it.
func TestLimitedUser(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	z := start(t, 1, "--password-file", password)
	ctx := t.Context()
	admin := client(t, Options{Endpoints: z.Addrs(), User: "root", Password: "secret"}).client
	may := func(key, end string, how clientv3.PermissionType) error {
		_, err := admin.RoleGrantPermission(ctx, "team", key, end, how)
		return err
	}
	_, role := admin.RoleAdd(ctx, "team")
	_, user := admin.UserAdd(ctx, "bob", "pw")
	_, grant := admin.UserGrantRole(ctx, "bob", "team")
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	if err := errors.Join(role, user, grant, may("/org", "", clientv3.PermissionType(clientv3.PermRead)),
		may("/org/team", "", readWrite), may("/org/team/", "/org/team0", readWrite)); err != nil {
		t.Fatal(err)
	}
	bob := func(chroot string) (*metastore.Store, error) {
		b := client(t, Options{Endpoints: z.Addrs(), User: "bob", Password: "pw"})
		return metastore.New(ctx, b, metastore.Options{Chroot: chroot, Group: "g"})
	}
	s, err := bob("org/team")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Enqueue(ctx, "jobs", 1); err != nil {
		t.Fatal(err)
	}
	item, err := s.Dequeue(ctx, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := item.Consume(ctx, nil); err != nil {
		t.Error(err)
	}
	if names, err := s.Members(ctx, "jobs/items"); err != nil || len(names) > 0 {
		t.Errorf("an empty queue has %q, %v", names, err)
	}
	if other, err := bob("org/others"); !errors.Is(err, metastore.ErrDenied) {
		t.Errorf("beside the prefix: %v, %v, want ErrDenied", other, err)
	}
}

// TestMarks: nothing shows the mark of a directory to which something was appended, nor does it keep a node above it
// from being ephemeral. A name sorts after all that were given before the directory was deleted.
func TestMarks(t *testing.T) {
	t.Parallel()
	b := one(t, start(t, 1).Addrs())
	ctx := t.Context()
	commit := func(do metastore.OpKind, path string) {
		t.Helper()
		if err := b.Commit(ctx, nil, []metastore.Op{{Path: path, Do: do}}); err != nil {
			t.Fatal(err)
		}
	}
	names := b.Watch("/a", metastore.Names)
	defer names.Close()
	shows := func(want ...string) {
		t.Helper()
		now, err := names.Next(ctx)
		if err != nil || !slices.Equal(now.Names, want) {
			t.Fatalf("a feed shows %q, %v, want %q", now.Names, err, want)
		}
	}
	shows()
	dirs := []string{"/a/b", "/a/c", "/a/d", "/a/e", "/a/f"}
	for _, dir := range dirs { // more marks than are looked at first
		name, err := b.Append(ctx, dir, []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		shows(filepath.Base(dir))
		if leaves, err := b.Tree(ctx, "/a"); err != nil || len(leaves) != 1 || leaves[0].Path != dir+"/"+name {
			t.Errorf("found %+v, %v", leaves, err)
		}
		commit(metastore.Delete, dir+"/"+name)
		shows()
	}
	for _, path := range append(dirs, "/a") {
		if _, err := b.Get(ctx, path); !errors.Is(err, metastore.ErrNoNode) {
			t.Errorf("Get(%s): found %v, want ErrNoNode", path, err)
		}
		if children, err := b.Children(ctx, path); !errors.Is(err, metastore.ErrNoNode) {
			t.Errorf("Children(%s): found %q, %v, want ErrNoNode", path, children, err)
		}
	}
	if leaves, err := b.Tree(ctx, "/"); err != nil || len(leaves) > 0 {
		t.Errorf("found %+v, %v", leaves, err)
	}
	session, err := b.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ephemeral := []metastore.Op{{Path: "/a", Do: metastore.Create, Value: []byte("1"), Session: session}}
	if err := b.Commit(ctx, nil, ephemeral); err != nil {
		t.Errorf("a node with marks below it: %v", err)
	}
	commit(metastore.Delete, "/a")
	last := ""
	for range 3 {
		name, err := b.Append(ctx, "/a/b", []byte("1"))
		if err != nil || name <= last {
			t.Errorf("found %q, %v, after %q", name, err, last)
		}
		last = name
		if err := b.Commit(ctx, nil, ephemeral); !errors.Is(err, metastore.ErrEphemeralParent) {
			t.Errorf("a node with a child: found %v, want ErrEphemeralParent", err)
		}
		commit(metastore.DeleteTree, "/a")
	}
	if r, err := b.client.Get(ctx, "\x00", clientv3.WithFromKey()); err != nil || len(r.Kvs) > 0 {
		t.Errorf("the trees are deleted, and %v is left, %v", r, err)
	}
}
