// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
)

// withUsers is a store that asks who one is, and the folder with the users' passwords.
type withUsers struct {
	t       *testing.T
	urlFor  func(user string) string
	folder  string
	program string
}

// onGuardedStores runs a test on a server of each engine that has an administrator.
func onGuardedStores(t *testing.T, f func(t *testing.T, w *withUsers)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	open := func(t *testing.T) *withUsers {
		w := &withUsers{t: t, folder: filepath.Join(t.TempDir(), "users")}
		file := filepath.Join(w.folder, "root.password")
		if err := os.MkdirAll(w.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("the administrator's\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return w
	}
	t.Run("etcd", func(t *testing.T) {
		w := open(t)
		e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--password-file", w.file("root"))
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		w.urlFor = func(user string) string { return "etcd://" + user + "@" + e.Addrs()[0] }
		f(t, w)
	})
	t.Run("zk", func(t *testing.T) {
		w := open(t)
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		w.urlFor = func(user string) string { return "zk://" + user + "@" + e.Addrs()[0] + "/chroot" }
		f(t, w)
	})
}

func (w *withUsers) file(user string) string { return filepath.Join(w.folder, user+".password") }

// flags are those of a user for the store.
func (w *withUsers) flags(user string) []string {
	return []string{"--store", w.urlFor(user), "--store-password-file", w.file(user)}
}

// does runs a command as a user, and wants its status, and a text in what it writes.
func (w *withUsers) does(user, args string, status int, want string) (stdout string) {
	w.t.Helper()
	words := append(strings.Fields(args), w.flags(user)...)
	if words[0] == "submit" || words[0] == "results" {
		words = append(words, "--program", w.program)
	}
	got, stdout, stderr := run("", words...)
	if got != status || !strings.Contains(stdout+stderr, want) {
		w.t.Fatalf("%s: %s: status %d, want %d, and %q in\n%s%s", user, args, got, status, want, stdout, stderr)
	}
	return stdout
}

// TestRoles is how a group with roles is used: roles are given, machines simulate, ann submits, bob can't touch what
// is ann's, eve looks at all of it, and the audit has who did what.
func TestRoles(t *testing.T) {
	onGuardedStores(t, func(t *testing.T, w *withUsers) {
		t.Setenv("DISCO_STORE_PASSWORD", "the administrator's")
		x := newSubmitting(t, w.urlFor("root"))
		t.Setenv("DISCO_STORE_PASSWORD", "")
		w.program = x.self
		w.does("root", "store roles --grant ann=submit --grant bob=submit --grant eve=see --grant machines=operate "+
			"--passwords "+w.folder, 0, "a password for eve was made: "+w.file("eve"))
		w.does("root", "store roles --grant ann=submit --passwords "+w.folder, 0, "everything was so already")
		w.does("root", "store roles --grant new=submit", 2, "user new is new: --passwords DIR is missing")
		w.does("root", "store roles --grant new=king", 2, "with the role see, submit or operate")
		w.does("ann", "store roles --grant bob=see", 1, "roles are given by root here, and this is user ann")
		w.makesNone("ann", "late=see", 1, "roles are given by root here, and this is user ann")
		w.makesNone("root", "root=submit", 2, "user root gives the roles, and may do everything: want other users")
		w.makesNone("root", "ann=submit --revoke root", 2, "user root gives the roles")
		w.does("eve", "store roles", 0, "machines  operate")
		a := start(t, nil, append([]string{"agent", "--name", "h1", "--slots", "2", "--executor", "local", "--work",
			filepath.Join(t.TempDir(), "work"), "--program", w.program}, w.flags("machines")...)...)
		a.expect(t, "h1 is up")
		words := strings.Fields(w.does("ann", "submit "+x.file+" --name night --replications 2", 0, "night: "))
		id := words[len(words)-1]
		if !strings.HasPrefix(id, "ann.") {
			t.Errorf("found the id %s, want ann's", id)
		}
		w.does("eve", "submit "+x.file, 1, "user eve may see: submit needs the role submit, which user root gives")
		w.does("eve", "cancel night", 1, "user eve may see: cancel needs the role submit")
		w.does("bob", "cancel night --why mine", 1, "may submit, and change experiments of bob alone")
		w.does("bob", "cluster drain h1", 1, "cluster drain needs the role operate")
		w.does("bob", "store rm fleet/audit -r", 1, "store rm needs the role operate")
		w.does("machines", "store rm fleet/audit -r", 1, "store rm needs the role")
		w.does("eve", "watch night", 0, "FINISHED")
		w.does("eve", "results night --out "+filepath.Join(t.TempDir(), "out"), 0, "")
		w.does("ann", "priority night high --why soon", 1, "priority isn't possible")
		w.does("bob", "cancel night --why mine", 1, "may submit, and change experiments of bob alone")
		w.does("eve", "retry night", 1, "user eve may see: retry needs the role submit")
		w.history(id)
		following := start(t, nil, append([]string{"audit", "-f"}, w.flags("bob")...)...)
		following.expect(t, "submit")
		w.does("root", "store roles --revoke bob", 0, "no role any more for bob")
		if status := following.end(0); status != 1 {
			t.Errorf("bob's audit -f has ended with %d", status)
		}
		w.does("bob", "list", 1, "user bob isn't let into the group disco")
		if status := a.end(syscall.SIGTERM); status != 0 {
			t.Errorf("the agent has ended with %d", status)
		}
	})
}

// makesNone holds that a grant is refused before a password for it is made.
func (w *withUsers) makesNone(user, grant string, status int, want string) {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "none")
	w.does(user, "store roles --grant "+grant+" --passwords "+dir, status, want)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("%s has --grant %s: found %s, %v", user, grant, dir, err)
	}
}

// history: the audit has what was done, and by whom.
func (w *withUsers) history(id string) {
	w.does("eve", "show night --history", 0, "ann  submit  disco-run submit by ")
	w.does("eve", "audit", 0, "role operate for machines")
	w.does("eve", "audit --experiment nosuch", 2, "there is no experiment")
	w.does("eve", "audit --since yesterday", 2, "want how long ago")
	w.does("eve", "audit --since 0s", 0, "There is no such entry.")
	text := w.does("eve", "audit --json --user ann --since 1h --experiment "+id[:len(id)-1], 0, "")
	var all []struct {
		By, What, Experiment string
		Known                bool
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil || fmt.Sprint(all) != "[{ann submit "+id+" true}]" {
		w.t.Errorf("found %v, %v", all, err)
	}
	f := start(w.t, nil, append([]string{"audit", "-f", "--json", "--user", "bob"}, w.flags("eve")...)...)
	w.does("bob", "submit "+filepath.Join(w.t.TempDir(), "none.yml"), 2, "")
	x := filepath.Join(w.t.TempDir(), "moving.yml")
	if err := os.WriteFile(x, []byte(movingText), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.does("bob", "submit "+x+" --name bobs --label rack=none", 0, "bobs: ")
	f.expect(w.t, `"by":"bob"`)
	w.does("bob", "cancel bobs --why enough", 0, "cancel is asked for")
	f.expect(w.t, `"why":"enough"`)
	if status := f.end(syscall.SIGTERM); status != 128+int(syscall.SIGTERM) {
		w.t.Errorf("audit -f has ended with %d", status)
	}
}
