// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

// authority writes certificates into a folder.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// file writes a file of the folder.
func (a *authority) file(name, kind string, der []byte) string {
	a.t.Helper()
	name = filepath.Join(a.dir, name)
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(name, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return name
}

// certificate makes one, by itself or by the authority.
func (a *authority) certificate(name string, isCA bool) (cert, key string) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: isCA,
		BasicConstraintsValid: isCA, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if isCA {
		a.cert, a.key = c, k
	} else {
		c.KeyUsage = x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.file(name+".pem", "CERTIFICATE", der), a.file(name+".key", "EC PRIVATE KEY", secret)
}

// config is a client's, with or without a certificate of its own.
func config(t testing.TB, ca, cert, key string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	c.RootCAs.AppendCertsFromPEM(text)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// tryGet makes a client and reads something.
func tryGet(t *testing.T, o Options, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	b, err := New(ctx, o)
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Get(ctx, "/none")
	return err
}

// TestSecurity: with TLS, who has no certificate gets in by the password only; the second server joins by it too.
func TestSecurity(t *testing.T) {
	t.Parallel()
	a := &authority{t: t, dir: t.TempDir()}
	ca, _ := a.certificate("ca", true)
	cert, key := a.certificate("server", false)
	files := []string{"--cert", cert, "--key", key, "--ca", ca}
	password := filepath.Join(a.dir, "password")
	if err := os.WriteFile(password, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := Options{TLS: config(t, ca, "", "")}
	own := Options{TLS: config(t, ca, cert, key)}
	good := Options{TLS: bare.TLS, User: "root", Password: "correct horse"}
	bad := Options{TLS: bare.TLS, User: "root", Password: "wrong horse"}
	check := func(name string, o Options, addrs []string, want error) {
		t.Helper()
		o.Endpoints = addrs
		limit := time.Minute
		if want == metastore.ErrUnavailable {
			limit = 500 * time.Millisecond
		}
		err := tryGet(t, o, limit)
		if !errors.Is(err, want) {
			t.Errorf("%s: found %v, want %v", name, err, want)
		}
		t.Logf("%s: %v", name, err)
	}
	z := start(t, 1, files...)
	check("certificates: a client with one", own, z.Addrs(), metastore.ErrNoNode)
	check("certificates: a client without one", bare, z.Addrs(), metastore.ErrUnavailable)
	check("certificates: a client without TLS", Options{}, z.Addrs(), metastore.ErrUnavailable)
	z.Close()

	z = start(t, 1, append(files, "--password-file", password)...)
	check("password", good, z.Addrs(), metastore.ErrNoNode)
	check("wrong password", bad, z.Addrs(), metastore.ErrDenied)
	check("no password", bare, z.Addrs(), metastore.ErrDenied)
	check("no TLS", Options{User: "root", Password: "correct horse"}, z.Addrs(), metastore.ErrUnavailable)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flags := append(files, "--password-file", password, "--join", z.Addrs()[0])
	second, err := storeserver.NewEtcd(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Kill()
	if err := errors.Join(second.Start(), second.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	check("password at the second server", good, []string{second.Addr()}, metastore.ErrNoNode)
	check("wrong password at the second server", bad, []string{second.Addr()}, metastore.ErrDenied)
}

// The revision of a feed is compacted while its client is away: it lists again, and gives what is there.
func TestCompaction(t *testing.T) {
	t.Parallel()
	z := start(t, 1)
	e := storetest.Proxied(z.Addrs(), true, func(t testing.TB, addrs []string) metastore.Backend {
		return one(t, addrs)
	})
	b, writer := e.New(t), one(t, z.Addrs())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := func(path, value string) {
		t.Helper()
		err := writer.Commit(ctx, nil, []metastore.Op{{Path: path, Do: metastore.Set, Value: []byte(value)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	set("/d/v", "1")
	data, names := b.Watch("/d/v", metastore.Data), b.Watch("/d", metastore.Names)
	for _, f := range []metastore.Feed{data, names} {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	e.Disconnect(t, b)
	for i := range 10 {
		set("/d/v", fmt.Sprint("away ", i))
		set("/d/w", fmt.Sprint(i))
	}
	r, err := writer.client.Get(ctx, "/d/v")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	e.Reconnect(t, b)
	if s, err := data.Next(ctx); err != nil || string(s.Node.Value) != "away 9" {
		t.Errorf("found %q, %v", s.Node.Value, err)
	}
	if s, err := names.Next(ctx); err != nil || !slices.Equal(s.Names, []string{"v", "w"}) {
		t.Errorf("found %q, %v", s.Names, err)
	}
}

// Another store at the same address is noticed by the next call.
func TestWrongCluster(t *testing.T) {
	t.Parallel()
	z := start(t, 1)
	b := one(t, z.Addrs())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.Commit(ctx, nil, []metastore.Op{{Path: "/v", Do: metastore.Set, Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	name, err := b.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := b.Watch("/v", metastore.Data)
	if _, err := f.Next(ctx); err != nil {
		t.Fatal(err)
	}
	z.Close()
	start(t, 1, "--listen", z.Addrs()[0])
	if n, err := b.Get(ctx, "/v"); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Errorf("found %q, %v, want ErrWrongCluster", n.Value, err)
	}
	if now, err := one(t, z.Addrs()).Cluster(ctx); err != nil || now == name {
		t.Errorf("found %q, %v, and before %q", now, err, name)
	}
	if s, err := f.Next(ctx); !errors.Is(err, metastore.ErrWrongCluster) {
		t.Errorf("a feed shows another store's state: %q, %v", s.Node.Value, err)
	}
}

// Many keys are listed in pages, and children of children are skipped.
func TestPages(t *testing.T) {
	t.Parallel()
	b := one(t, start(t, 1).Addrs())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const children, below = 3, keysPage + 10
	var ops []clientv3.Op
	for c := range children {
		for i := range below {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/p/%d/%06d", c, i), "x"))
		}
	}
	for part := range slices.Chunk(append(ops, clientv3.OpPut("/p/1-", "x")), 8192) {
		if _, err := b.client.Txn(ctx).Then(part...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"0", "1", "1-", "2"}
	if names, err := b.Children(ctx, "/p"); err != nil || !slices.Equal(names, want) {
		t.Errorf("found %q, %v", names, err)
	}
	if names, err := b.Children(ctx, "/p/1"); err != nil || len(names) != below {
		t.Errorf("found %d names, %v", len(names), err)
	}
	if all, err := b.Tree(ctx, "/p"); err != nil || len(all) != children*below+1 {
		t.Errorf("found %d leaves, %v", len(all), err)
	}
	f := b.Watch("/p", metastore.Names)
	if s, err := f.Next(ctx); err != nil || !slices.Equal(s.Names, want) {
		t.Errorf("found %q, %v", s.Names, err)
	}
	if err := b.Commit(ctx, nil, []metastore.Op{{Path: "/p/0", Do: metastore.DeleteTree}}); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Next(ctx); err != nil || !slices.Equal(s.Names, want[1:]) {
		t.Errorf("found %q, %v", s.Names, err)
	}
}

// What the client remembers may be wrong: another client has deleted the key.
func TestWrongHints(t *testing.T) {
	t.Parallel()
	addrs := start(t, 1).Addrs()
	a, b := one(t, addrs), one(t, addrs)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	commit := func(c *Backend, ops ...metastore.Op) {
		t.Helper()
		if err := c.Commit(ctx, nil, ops); err != nil {
			t.Fatal(err)
		}
	}
	value := []byte("1")
	v := metastore.Op{Path: "/d/v", Do: metastore.Set, Value: value}
	w := metastore.Op{Path: "/w", Do: metastore.Set, Value: value}
	for _, ops := range [][]metastore.Op{{v}, {v, w}} {
		commit(a, ops...)
		commit(b, metastore.Op{Path: "/d", Do: metastore.DeleteTree})
		commit(a, ops...)
		if n, err := b.Get(ctx, "/d/v"); err != nil || n.Ephemeral {
			t.Errorf("found %+v, %v", n, err)
		}
		commit(b, metastore.Op{Path: "/d", Do: metastore.DeleteTree})
		s, err := b.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		commit(b, metastore.Op{Path: "/d", Do: metastore.Create, Value: value, Session: s})
		if err := a.Commit(ctx, nil, ops); !errors.Is(err, metastore.ErrEphemeralParent) {
			t.Errorf("found %v, want ErrEphemeralParent", err)
		}
		commit(b, metastore.Op{Path: "/d", Do: metastore.Delete})
	}
}
