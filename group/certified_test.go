// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
)

// TestRolesByCertificate: users are known to a store by certificates, as commands show them.
func TestRolesByCertificate(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	does := func(args, folder string, status int, want string) {
		t.Helper()
		words := strings.Fields(args)
		if folder != "" {
			words = append(words, "--store-ca", in(folder, "ca.pem"), "--store-cert", in(folder, "cert.pem"),
				"--store-key", in(folder, "key.pem"))
		}
		if got, stdout, stderr := run("", words...); got != status || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("%s: %s: status %d, want %d, and %q in\n%s%s", folder, args, got, status, want, stdout, stderr)
		}
	}
	does("certs init "+in("authority"), "", 0, "")
	does("certs issue --host 127.0.0.1 --dir "+in("authority")+" --out "+in("h1"), "", 0, "")
	for _, user := range []string{"root", "ann", "eve"} {
		does("certs issue --user "+user+" --dir "+in("authority")+" --out "+in(user), "", 0,
			"is the --door-tls of user "+user)
	}
	does("certs issue --user a/b --dir "+in("authority")+" --out "+in("x"), "", 2, "letters of ASCII")
	does("certs issue --user ann --host h --dir "+in("authority")+" --out "+in("x"), "", 2, "want one of them")
	if err := os.WriteFile(in("password"), []byte("a secret of root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--password-file", in("password"), "--cert",
		in("h1", "cert.pem"), "--key", in("h1", "key.pem"), "--ca", in("h1", "ca.pem"), "--users-ca",
		in("h1", "users.pem"))
	storeserver.Need(t, err)
	t.Cleanup(e.Close)
	at := " --store etcd://" + e.Addrs()[0]
	does("store roles --grant ann=submit --certificates"+at, "root", 0, "user ann is new, by its certificate")
	does("store roles --grant ann=see --passwords "+in("passwords")+at, "root", 0, "role see for ann")
	if err := os.WriteFile(in("ann.password"), []byte("a long enough password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	does("store roles --grant ann=see --passwords "+dir+at, "root", 2, "ann is known by its certificate")
	does("store roles"+at, "ann", 0, "certificate")
	does("list"+at, "ann", 0, "")
	does("store put x 1"+at, "ann", 1, "user ann may see: store put needs the role operate, which user root gives")
	does("list"+at, "eve", 1, "or doesn't let the user of the certificate into the group disco")
	does("list"+at, "h1", 1, "doesn't go by the certificate of \"127.0.0.1\"")
	does("list --store etcd://root@"+e.Addrs()[0]+" --store-password-file "+in("password"), "h1", 0, "")
}
