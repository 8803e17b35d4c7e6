// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A user's certificate is good for nothing where machines talk to each other, and a folder of an authority of before
// users had certificates gets theirs with the first. One authority for both is refused.
func TestUsers(t *testing.T) {
	a := authority(t)
	for _, name := range []string{UsersFile, UsersKeyFile} {
		if err := os.Remove(filepath.Join(a, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := machine(t, a, Period(1), "h1")
	if !notThere(before, UsersFile) {
		t.Error("a machine has an authority of users that isn't there")
	}
	ann, bob := filepath.Join(t.TempDir(), "ann"), filepath.Join(t.TempDir(), "bob")
	for user, out := range map[string]string{"ann": ann, "bob": bob} {
		if err := IssueUser(a, out, user, Period(1)); err != nil {
			t.Fatal(err)
		}
	}
	h2 := machine(t, a, Period(1), "h2")
	user := load(t, ann)
	if got := User(user.certificate.Leaf); got != "ann" {
		t.Errorf("found the user %q, want ann", got)
	}
	if got := User(load(t, h2).certificate.Leaf); got != "" {
		t.Errorf("found the user %q, want that of a machine to be none", got)
	}
	if err := user.CheckServes(); err == nil || !strings.Contains(err.Error(), "want that of a machine") {
		t.Errorf("a user's folder for a machine: found %v", err)
	}
	if err := load(t, h2).CheckServes(); err != nil {
		t.Error(err)
	}
	for _, server := range []string{before, h2} {
		found, _ := handshake(t, user, load(t, server), map[string]string{before: "h1", h2: "h2"}[server])
		if !strings.Contains(found, "is of an authority that it doesn't know") {
			t.Errorf("a user at a machine: found %q", found)
		}
	}
	if found, _ := handshake(t, load(t, h2), user, "ann"); found == "" {
		t.Error("a user is believed to be a machine")
	}
	text, err := os.ReadFile(filepath.Join(h2, AuthorityFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(h2, UsersFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(h2); err == nil || !strings.Contains(err.Error(), "each machine would be a user of its name") {
		t.Errorf("one authority for both: found %v", err)
	}
}
