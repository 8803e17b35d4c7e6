// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestParse(t *testing.T) {
	for text, want := range map[string]Address{
		"etcd://127.0.0.1:2379":            {"etcd", []string{"127.0.0.1:2379"}, "", ""},
		"etcd://h1,h2:23790,h3/a/b/":       {"etcd", []string{"h1:2379", "h2:23790", "h3:2379"}, "", "a/b"},
		"zk://[::1]:2182,[::1]/disco":      {"zk", []string{"[::1]:2182", "[::1]:2181"}, "", "disco"},
		"etcd://root@localhost":            {"etcd", []string{"localhost:2379"}, "root", ""},
		"etcd://o%40x%3Ay@localhost:2379/": {"etcd", []string{"localhost:2379"}, "o@x:y", ""},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "the form is", "h1:2379": "the form is", "http://h1": "the form is", "consul://u:secret@h": "…@h",
		"etcd://": "no name or address", "etcd://h1,,h2": "no name or address", "etcd://h1:x": `the port "x"`,
		"etcd://h1:0": "1 to 65535", "etcd://h1:70000": "1 to 65535", "etcd://::1:2379": "brackets",
		"etcd://u:secret@h1": "--store-password-file", "etcd://@h1": "the user", "etcd://%zz@h1": "the user",
		"etcd://h1/a/../b": "out of its group", "etcd://h1/a//b": "is empty", "etcd://h1/a?b=c": "? or #",
		"zk://h1/zookeeper": "ZooKeeper itself", "etcd://h 1": "no name or address",
	} {
		got, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v; want an error with %q, without the password", text, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("etcd://u@h1:2379,[::1]/a/b")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(a.Engine + "://" + strings.Join(a.Hosts, ",") + "/" + a.Chroot)
		if err != nil || !reflect.DeepEqual(again.Hosts, a.Hosts) || again.Chroot != a.Chroot {
			t.Fatalf("%q: %+v, read again %+v, %v", text, a, again, err)
		}
	})
}

// TestRefusedBeforeAnythingIsSent: mistakes in the options are told at once.
func TestRefusedBeforeAnythingIsSent(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, o := range map[string]Options{
		"by TLS only":           {URL: "etcd://192.0.2.1:2379"},
		"isn't this machine":    {URL: "zk://127.0.0.1,store.example.org"},
		"both or neither":       {URL: "etcd://127.0.0.1", CA: "ca", Cert: "cert"},
		"needs --store-ca":      {URL: "etcd://127.0.0.1", Cert: "cert", Key: "key"},
		"no certificate in PEM": {URL: "etcd://127.0.0.1", CA: file("x")},
		"has no password":       {URL: "etcd://u@127.0.0.1"},
		"no user":               {URL: "etcd://127.0.0.1", PasswordFile: file("x")},
		"no file of that name":  {URL: "etcd://u@127.0.0.1", PasswordFile: "/nonexistent/file"},
		"the form is":           {},
	} {
		s, err := Open(context.Background(), o)
		var wrong *OptionsError
		if s != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want an error with %q", o, err, want)
		}
	}
}
