// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	for _, c := range []struct{ root, key, want string }{
		{"", "", "/"}, {"", "/", "/"}, {"/g", "", "/g"}, {"", "a", "/a"}, {"/g", "/a/b", "/g/a/b"},
		{"/g", "…/ü", "/g/…/ü"}, {"/g", "zookeeper", "/g/zookeeper"},
		{"", strings.Repeat("n", MaxName), "/" + strings.Repeat("n", MaxName)},
	} {
		if got, err := Path(c.root, c.key); err != nil || got != c.want {
			t.Errorf("Path(%q, %q) = %q, %v; want %q", c.root, c.key, got, err, c.want)
		}
	}
	for _, c := range []struct{ root, key, want string }{
		{"/g", "..", "out of its group"}, {"/g", "a/../../b", "out of its group"}, {"/g", "./a", "out of its group"},
		{"", "a//b", "is empty"}, {"", "a/", "is empty"}, {"", "//a", "is empty"}, {"", "a\x00b", "U+0000"},
		{"", "a\nb", "U+000A"}, {"", "\xff", "UTF-8"}, {"", "\ue000", "U+E000"}, {"", "\ufffe", "U+FFFE"},
		{"", "\U0001f642", "U+1F642"},
		{"", strings.Repeat("n", MaxName+1), "256 bytes"}, {"", strings.Repeat("a/", MaxPath/2) + "a", "at most 1024"},
		{"", "zookeeper", "ZooKeeper itself"}, {"", "zookeeper/quota", "ZooKeeper itself"},
	} {
		if got, err := Path(c.root, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Path(%q, %q) = %q, %v; want an error with %q", c.root, c.key, got, err, c.want)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for _, c := range []struct {
		key   string
		write bool
		want  string
	}{
		{"a/b", true, ""}, {"zookeeper", true, ""}, {"", false, ""}, {"/", false, ""}, {".discover", true, ""},
		{"", true, "the group itself"}, {"/", true, "the group itself"}, {".disco", false, "the store's own"},
		{"/.disco/x", true, "the store's own"}, {"a/..", false, "out of its group"},
		{strings.Repeat("a/", MaxPath/2-1) + "a", false, "at most 1024"},
	} {
		err := CheckKey("group", c.key, c.write)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q, write %v: %v, want %q", c.key, c.write, err, c.want)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add("/g", "a/b")
	f.Fuzz(func(t *testing.T, root, key string) {
		root, err := Path("", root)
		if err != nil || root == "/" {
			return
		}
		path, err := Path(root, key)
		if err != nil {
			return
		}
		if path != root && !strings.HasPrefix(path, root+"/") {
			t.Fatalf("%q is not below %q", path, root)
		}
		if again, err := Path("", path); err != nil || again != path {
			t.Fatalf("Path(%q) = %q, %v: it isn't its own path", path, again, err)
		}
	})
}
