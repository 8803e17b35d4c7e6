// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
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
		"etcd://h1,[": "no name or address", "zk://[h1": "no name or address", "zk://h]": "no name or address",
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
	open := file("secret")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	expired := filepath.Join(t.TempDir(), "expired")
	writeExpired(t, expired)
	for want, o := range map[string]Options{
		"which isn't now":       {URL: "etcd://127.0.0.1", CA: expired, Cert: expired, Key: expired},
		"by TLS only":           {URL: "etcd://192.0.2.1:2379"},
		"isn't this machine":    {URL: "zk://127.0.0.1,store.example.org"},
		"both or neither":       {URL: "etcd://127.0.0.1", CA: "ca", Cert: "cert"},
		"needs --store-ca":      {URL: "etcd://127.0.0.1", Cert: "cert", Key: "key"},
		"no certificate in PEM": {URL: "etcd://127.0.0.1", CA: file("x")},
		"has no password":       {URL: "etcd://u@127.0.0.1"},
		"no user":               {URL: "etcd://127.0.0.1", PasswordFile: file("x")},
		"chmod 600 it":          {URL: "etcd://u@127.0.0.1", PasswordFile: open},
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

// writeExpired writes a certificate that was good until yesterday, and its key, into one file.
func writeExpired(t *testing.T, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(-24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCertificatesThatDontFit: mistakes in certificates are named, also where there is little time. The servers are
// real.
func TestCertificatesThatDontFit(t *testing.T) {
	t.Parallel()
	right, err := storeserver.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := storeserver.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	z, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--cert", right.Cert, "--key", right.Key, "--ca", right.CA)
	storeserver.Need(t, err)
	defer z.Close()
	elsewhere, err := forward.New("127.0.0.2:0", z.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	try := func(o Options) error {
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		s, err := Open(short, o)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	url := "etcd://" + z.Addrs()[0]
	for want, o := range map[string]Options{
		"who signs it, and":     {URL: url, CA: foreign.CA, Cert: right.Cert, Key: right.Key},
		"not 127.0.0.2":         {URL: "etcd://" + elsewhere.Addr(), CA: right.CA, Cert: right.Cert, Key: right.Key},
		"this client's":         {URL: url, CA: right.CA, Cert: foreign.Cert, Key: foreign.Key},
		"certificate, or want ": {URL: url, CA: right.CA},
	} {
		if err := try(o); !errors.Is(err, metastore.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v; want an error with %q", err, want)
		}
	}
	z.Servers[0].Signal(syscall.SIGSTOP)
	defer z.Servers[0].Signal(syscall.SIGCONT)
	err = try(Options{URL: url, CA: right.CA, Cert: right.Cert, Key: right.Key})
	if !errors.Is(err, metastore.ErrUnavailable) || strings.Contains(err.Error(), "certificate") {
		t.Errorf("of a server that is silent: %v", err)
	}
}

// serve answers each connection by f, and then ends it.
func serve(t *testing.T, f func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(time.Second))
			f(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

// TestServerSpeaksTLS: who reaches a server of TLS without it is told so, also where the server wants a certificate; of
// a server that doesn't speak it nothing is said about TLS.
func TestServerSpeaksTLS(t *testing.T) {
	files, err := storeserver.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	speaks := func(version uint16) func(net.Conn) {
		config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, MaxVersion: version,
			ClientAuth: tls.RequireAnyClientCert}
		return func(c net.Conn) { _ = tls.Server(c, config).Handshake() }
	}
	for name, f := range map[string]func(net.Conn){"TLS 1.2": speaks(tls.VersionTLS12),
		"TLS 1.3": speaks(tls.VersionTLS13), "none": func(net.Conn) {}} {
		for _, engine := range []string{"etcd", "zk"} {
			t.Run(engine+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				s, err := Open(ctx, Options{URL: engine + "://" + serve(t, f)})
				if s != nil || !errors.Is(err, metastore.ErrUnavailable) ||
					strings.Contains(err.Error(), "speaks TLS") != (name != "none") {
					t.Errorf("found %v", err)
				}
			})
		}
	}
}
