// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// over is a validity that has ended.
func over() Validity {
	now := time.Now()
	return Validity{now.Add(-2 * time.Hour), now.Add(-time.Hour)}
}

// authority makes one, and gives its folder.
func authority(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "authority")
	if err := Init(dir, Period(10)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// machine makes a machine's folder.
func machine(t *testing.T, authority string, v Validity, hosts ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "machine")
	if err := Issue(authority, out, hosts, v); err != nil {
		t.Fatal(err)
	}
	return out
}

func load(t *testing.T, dir string) *Identity {
	t.Helper()
	id, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// unchecked reads a folder whose certificate is no good, as a machine would that doesn't look at its own.
func unchecked(t *testing.T, dir, authorities string) *Identity {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertificateFile), filepath.Join(dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	id := *load(t, authorities)
	id.dir, id.certificate = dir, pair
	return &id
}

// handshake joins two sides over the loopback, and gives what each of them says about the other: first the client.
func handshake(t *testing.T, client, server *Identity, host string) (string, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	explain := func(id *Identity, c *tls.Conn, machine string) string {
		defer c.Close()
		err := c.SetDeadline(time.Now().Add(20 * time.Second))
		if err == nil {
			err = c.Handshake()
		}
		if err == nil {
			_, err = c.Write([]byte{1})
		}
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if err == nil {
			return ""
		}
		return id.Explain(err, machine).Error()
	}
	result := make(chan string)
	go func() {
		c, err := l.Accept()
		if err != nil {
			result <- err.Error()
			return
		}
		result <- explain(server, tls.Server(c, server.Server()), "C")
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	found := explain(client, tls.Client(c, client.Client(host)), "S")
	return found, <-result
}

// Two machines of one authority agree; every other pair is refused, and the message names the machine or the file.
func TestHandshake(t *testing.T) {
	a, b := authority(t), authority(t)
	good, other := machine(t, a, Period(1), "h1", "10.0.0.1"), machine(t, b, Period(1), "h1")
	late := machine(t, a, over(), "h1")
	h1 := load(t, good)
	for _, c := range []struct {
		name             string
		client, server   *Identity
		host             string
		atClient, atPeer string
	}{
		{"name", h1, h1, "h1", "", ""},
		{"address", h1, h1, "10.0.0.1", "", ""},
		{"another name", h1, h1, "h2", "machine S: its certificate is for h1, 10.0.0.1, not for h2", "machine C"},
		{"client of another authority", unchecked(t, other, good), h1, "h1",
			other + "/cert.pem is of an authority that it doesn't know",
			"machine C: its certificate was signed by another authority than that in " + good + "/ca.pem"},
		{"server of another authority", h1, unchecked(t, other, good), "h1",
			"machine S: its certificate was signed by another authority than that in " + good + "/ca.pem",
			other + "/cert.pem is"},
		{"expired client", unchecked(t, late, good), h1, "h1", late + "/cert.pem has expired",
			"machine C: its certificate is valid from"},
		{"expired server", h1, unchecked(t, late, good), "h1", "machine S: its certificate is valid from",
			late + "/cert.pem"},
		{"no certificate", &Identity{dir: good, authorities: h1.authorities}, h1, "h1",
			good + "/cert.pem is missing", "machine C"},
	} {
		t.Run(c.name, func(t *testing.T) {
			atClient, atPeer := handshake(t, c.client, c.server, c.host)
			for _, side := range []struct{ found, want string }{{atClient, c.atClient}, {atPeer, c.atPeer}} {
				if !strings.Contains(side.found, side.want) || (side.want == "") != (side.found == "") {
					t.Errorf("found %q, want %q", side.found, side.want)
				}
			}
		})
	}
}

// What can't be a machine's folder is refused with the file.
func TestLoad(t *testing.T) {
	a := authority(t)
	swap := func(name, from string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := machine(t, a, Period(1), "h2")
	block := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"key of another", swap(KeyFile, second), "key.pem isn't the key of"},
		{"another authority", swap(AuthorityFile, authority(t)), "cert.pem wasn't signed by the authority in"},
		{"expired", func(t *testing.T, dir string) {
			late := machine(t, a, over(), "h1")
			swap(CertificateFile, late)(t, dir)
			swap(KeyFile, late)(t, dir)
		}, "cert.pem is valid from"},
		{"not valid yet", func(t *testing.T, dir string) {
			now := time.Now()
			early := machine(t, a, Validity{now.Add(time.Hour), now.Add(2 * time.Hour)}, "h1")
			swap(CertificateFile, early)(t, dir)
			swap(KeyFile, early)(t, dir)
		}, "cert.pem is valid from"},
		{"missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, CertificateFile)); err != nil {
				t.Fatal(err)
			}
		}, "`certs issue --out"},
		{"no certificate", write(AuthorityFile, "hello"), "ca.pem: found no certificate"},
		{"key for certificate", write(CertificateFile, block), "cert.pem: found a block \"PRIVATE KEY\""},
		{"no key", write(KeyFile, ""), "key.pem: found no key"},
		{"broken key", write(KeyFile, block), "want a key as certs makes them"},
		{"too large", write(CertificateFile, strings.Repeat("x", pemBytesMax+1)), "at most"},
		{"readable", func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, KeyFile), 0o640); err != nil {
				t.Fatal(err)
			}
		}, "chmod 600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := machine(t, a, Period(1), "h1")
			load(t, dir)
			c.change(t, dir)
			_, err := Load(dir)
			var mistake *Error
			if !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("found %v, want %q in %s", err, c.want, dir)
			}
		})
	}
}

// A certificate never outlives its authority, and a machine's certificate can't sign others.
func TestLimits(t *testing.T) {
	a := authority(t)
	dir := machine(t, a, Period(365), "h1")
	all, err := readCertificates(dir, CertificateFile)
	if err != nil {
		t.Fatal(err)
	}
	root, err := readCertificates(dir, AuthorityFile)
	if err != nil || !all[0].NotAfter.Equal(root[0].NotAfter) {
		t.Errorf("valid until %v, the authority until %v (%v)", all[0].NotAfter, root[0].NotAfter, err)
	}
	if err := os.Rename(filepath.Join(dir, CertificateFile), filepath.Join(dir, AuthorityFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, KeyFile), filepath.Join(dir, AuthorityKeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := Issue(dir, t.TempDir(), []string{"h2"}, Period(1)); err == nil ||
		!strings.Contains(err.Error(), "want that of an authority") {
		t.Errorf("found %v", err)
	}
	if err := Init(t.TempDir(), Validity{over().Until, over().From}); err == nil {
		t.Error("a validity that ends before it begins is taken")
	}
}

// When a file can't be written, those before it go.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	if err := writeNew(dir, []file{{"a", nil}, {"missing/b", nil}}); err == nil {
		t.Fatal("written")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if err := writeOne(dir, file{"a", nil}); err != nil {
		t.Fatal(err)
	}
	if err := writeOne(dir, file{"a", nil}); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("found %v", err)
	}
}
