// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/certs"
)

// doorUsers is a door with certificates and tokens, at whose home roles were given.
type doorUsers struct {
	*byHand
	dir, at string
}

func (d *doorUsers) in(name string) string { return filepath.Join(d.dir, name) }

// does runs a command with flags, and wants its status, and a text in what it writes.
func (d *doorUsers) does(args, flags string, status int, want string) string {
	d.Helper()
	r := runs(d.T, append(strings.Fields(args), strings.Fields(flags)...)...)
	if r.status != status || !strings.Contains(r.stdout+r.stderr, want) {
		d.Fatalf("%s %s: found %+v, want status %d and %q", args, flags, r, status, want)
	}
	return r.stdout
}

// as are the flags of a user who has a certificate.
func (d *doorUsers) as(user string) string { return "--door " + d.at + " --door-tls " + d.in(user) }

// TestDoorRoles is a door as people use it: certificates and tokens are issued, roles given at the home, ann submits
// and cancels what is hers, bob and eve can't, and all of it is in the audit.
func TestDoorRoles(t *testing.T) {
	d := &doorUsers{byHand: openByHand(t), dir: t.TempDir()}
	self := selfProgram(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	sites, file := d.in("sites.yml"), d.in("moving.yml")
	d.must(os.WriteFile(sites, fmt.Appendf(nil, "home: {store: %q}\nsites:\n  - {name: b, store: %q}\n", d.url, d.url),
		0o600))
	d.must(os.WriteFile(file, []byte(movingText), 0o600))
	home := "--store " + d.url + " --group door"
	d.does("certs init "+d.in("authority"), "", 0, "users-key.pem")
	d.does("certs issue --host 127.0.0.1 --dir "+d.in("authority")+" --out "+d.in("h1"), "", 0,
		"--tls-dir of 127.0.0.1")
	for _, user := range []string{"ann", "bob", "eve"} {
		d.does("certs issue --user "+user+" --dir "+d.in("authority")+" --out "+d.in(user), "", 0, "of user "+user)
	}
	d.does("store roles --grant ann=submit --certificates", home, 1, "--for-doors")
	d.does("store roles --for-doors --grant ann=submit --passwords "+d.in("x"), home, 2, "want one of them")
	d.does("store roles --for-doors --grant ann=submit --grant bob=submit --grant eve=see --certificates", home, 2,
		"want one of them")
	d.does("store roles --for-doors --grant ann=submit --grant bob=submit --grant eve=see --grant tim=see --tokens "+
		d.in("tokens"), home, 0, "a token for tim was made")
	d.does("store roles", home, 0, "these roles count at doors")
	d.at = doorAt(d.byHand)
	door := start(t, nil, "door", "--sites", sites, "--listen", d.at, "--door-tls", d.in("h1"), "--tokens")
	door.expect(t, "the door is open")
	words := strings.Fields(d.does("submit "+file+" --name night --program "+self, d.as("ann"), 0, "night: "))
	id := words[len(words)-1]
	if !strings.HasPrefix(id, "ann.") {
		t.Errorf("found the id %s, want ann's", id)
	}
	d.does("list", d.as("eve"), 0, id)
	d.does("list", "--door "+d.at+" --door-tls "+d.in("h1"), 1, "is that of a machine")
	d.does("list", "--door "+d.at+" --insecure", 1, "it speaks TLS: --door-tls instead of --insecure")
	d.does("list", "--door "+d.at, 2, "want the folder that `certs issue` made")
	d.does("list", "--store "+d.url+" --door-tls x", 2, "no meaning without --door")
	d.does("cancel night --why mine", d.as("bob"), 1, "may submit, and change experiments of bob alone: cancel needs")
	d.does("cancel night", d.as("eve"), 1, "user eve may see: cancel needs the role submit")
	d.does("submit "+file+" --program "+self, d.as("eve"), 1, "user eve may see: submit needs the role submit")
	d.does("cancel night --why enough", d.as("ann"), 0, "cancel is asked for")
	d.does("show night --history", d.as("eve"), 0, "by a door, from 127.0.0.1:")
	d.must(os.Mkdir(d.in("ca"), 0o700))
	ca, err := os.ReadFile(filepath.Join(d.in("h1"), certs.AuthorityFile))
	d.must(err)
	d.must(os.WriteFile(filepath.Join(d.in("ca"), certs.AuthorityFile), ca, 0o600))
	tim := "--door " + d.at + " --door-tls " + d.in("ca") + " --token-file " + d.in("tokens/tim.token")
	text := d.does("audit --experiment "+id, tim, 0, "enough")
	if strings.Contains(text, "ann?") || strings.Count(text, "ann  ") != 2 {
		t.Errorf("found %s, want ann's two entries, and that it is known who did them", text)
	}
	d.does("store roles --for-doors --revoke tim --revoke ann", home, 0, "no role any more for ann")
	d.does("audit", tim, 1, "the token is no user's here, or not any more")
	d.does("list", d.as("ann"), 1, "user ann has no role at this door")
	if status := door.end(syscall.SIGTERM); status != 0 {
		t.Errorf("the door has ended with %d", status)
	}
}
