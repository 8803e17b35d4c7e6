// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/storeserver"
)

// TestUsersAreNoServers: a user's certificate lets nobody in where servers talk to each other, which believe each other
// everything; and a server isn't started whose users could be servers.
func TestUsersAreNoServers(t *testing.T) {
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(certs.Init(in("authority"), certs.Period(1)))
	must(certs.Issue(in("authority"), in("h1"), []string{"127.0.0.1"}, certs.Period(1)))
	must(certs.IssueUser(in("authority"), in("root"), "root", certs.Period(1)))
	must(os.WriteFile(in("password"), []byte("a secret"), 0o600))
	flags := []string{"--password-file", in("password"), "--cert", in("h1", "cert.pem"), "--key", in("h1", "key.pem"),
		"--ca", in("h1", "ca.pem"), "--users-ca"}
	_, err := storeserver.StartEtcds(t.Context(), t.TempDir(), 1, append(flags, in("h1", "ca.pem"))...)
	if err == nil || !strings.Contains(err.Error(), "whoever has a certificate of it could be a server") {
		storeserver.Need(t, err)
		t.Errorf("one authority for both: found %v", err)
	}
	e, err := storeserver.StartEtcds(t.Context(), t.TempDir(), 1, append(flags, in("h1", "users.pem"))...)
	storeserver.Need(t, err)
	t.Cleanup(e.Close)
	authority, err := os.ReadFile(in("h1", "ca.pem"))
	must(err)
	config := func(folder string) *tls.Config {
		pair, err := tls.LoadX509KeyPair(in(folder, "cert.pem"), in(folder, "key.pem"))
		must(err)
		c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
		c.RootCAs.AppendCertsFromPEM(authority)
		return c
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + e.Addrs()[0]}, TLS: config("root"),
		Context: t.Context()})
	must(err)
	defer client.Close()
	members, err := client.MemberList(t.Context())
	must(err) // root by its certificate
	peer, err := url.Parse(members.Members[0].PeerURLs[0])
	must(err)
	for folder, good := range map[string]bool{"h1": true, "root": false} {
		conn, err := tls.Dial("tcp", peer.Host, config(folder))
		if err == nil {
			must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
			if _, err = conn.Write([]byte("GET /version HTTP/1.0\r\n\r\n")); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			_ = conn.Close()
		}
		if good != (err == nil) || !good && !strings.Contains(err.Error(), "remote error: tls") {
			t.Errorf("%s, where servers talk to each other: found %v", folder, err)
		}
	}
}
