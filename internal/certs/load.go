// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/infile"
)

// Identity is what a machine's folder holds: its certificate with its key, and the authorities that it trusts.
type Identity struct {
	dir         string
	certificate tls.Certificate
	authorities *x509.CertPool
	users       *x509.CertPool      // the authorities of users; nil: the folder has none
	everybody   []*x509.Certificate // both kinds of authorities, where there are users
}

// Load reads a machine's folder. Its errors are [*Error].
func Load(dir string) (*Identity, error) {
	authorities, err := readCertificates(dir, AuthorityFile)
	if err != nil {
		return nil, err
	}
	chain, err := readCertificates(dir, CertificateFile)
	if err != nil {
		return nil, err
	}
	key, err := readKey(dir, KeyFile)
	if err != nil {
		return nil, err
	}
	own := chain[0]
	if !matches(own, key) {
		return nil, wrong("%s isn't the key of %s: they are from two calls of certs issue", filepath.Join(dir, KeyFile),
			filepath.Join(dir, CertificateFile))
	}
	id := &Identity{dir: dir, certificate: tls.Certificate{PrivateKey: key, Leaf: own}, authorities: pool(authorities)}
	for _, c := range chain {
		id.certificate.Certificate = append(id.certificate.Certificate, c.Raw)
	}
	if err := id.loadUsers(authorities); err != nil {
		return nil, err
	}
	o := x509.VerifyOptions{Roots: id.authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err = own.Verify(o); err != nil && id.users != nil {
		o.Roots = id.users
		if _, asUser := own.Verify(o); asUser == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, id.explainOwn(err, own, authorities)
	}
	return id, nil
}

// explainOwn puts into words why the machine's own certificate is no good.
func (id *Identity) explainOwn(err error, own *x509.Certificate, authorities []*x509.Certificate) error {
	const renew = "`certs issue` makes a new one"
	if late := expiry(filepath.Join(id.dir, CertificateFile), own, renew); late != nil {
		return late
	}
	for _, a := range authorities {
		late := expiry(filepath.Join(id.dir, AuthorityFile), a, "`certs init` makes a new authority")
		if late != nil {
			return late
		}
	}
	return wrong("%s wasn't signed by the authority in %s (%v): both files must be from one call of certs issue",
		filepath.Join(id.dir, CertificateFile), filepath.Join(id.dir, AuthorityFile), err)
}

// clock is this machine's, for messages about dates.
func clock() time.Time { return time.Now().Truncate(time.Second) }

// expiry is an error if a certificate isn't valid now.
func expiry(where string, c *x509.Certificate, todo string) error {
	if now := time.Now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return wrong("%s is valid from %v until %v, and this machine's clock is at %v: %s, or the clock is wrong",
			where, c.NotBefore, c.NotAfter, clock(), todo)
	}
	return nil
}

// loadAuthority reads an authority's folder.
func loadAuthority(dir, file, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	all, err := readCertificates(dir, file)
	if err != nil {
		return nil, nil, err
	}
	key, err := readKey(dir, keyFile)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, file)
	switch c := all[0]; {
	case !c.IsCA:
		return nil, nil, wrong("%s is the certificate of a machine, want that of an authority: `certs init` makes one",
			path)
	case !matches(c, key):
		return nil, nil, wrong("%s isn't the key of %s", filepath.Join(dir, keyFile), path)
	default:
		return c, key, expiry(path, c, "`certs init` makes a new authority, in another folder")
	}
}

func matches(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(*ecdsa.PublicKey)
	return ok && public.Equal(c.PublicKey)
}

const pemBytesMax = 256 << 10

// readCertificates gives the certificates of a file, at least one.
func readCertificates(dir, name string) (all []*x509.Certificate, err error) {
	text, err := read(dir, name, "certificates in PEM")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, wrong("%s: found a block %.40q (%v), want certificates in PEM", path, block.Type, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, wrong("%s: found no certificate, want one in PEM", path)
	}
	return all, nil
}

// readKey gives the key of a file, which nobody else may read.
func readKey(dir, name string) (crypto.Signer, error) {
	path := filepath.Join(dir, name)
	f, err := infile.Open(path, infile.Kind{Name: "a key in PEM", BytesMax: pemBytesMax})
	if err != nil {
		return nil, unread(err, dir)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, wrong("%s: %v", path, err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return nil, wrong("%s: found mode %#o, want a key that only its owner can read: chmod 600 %s", path,
			mode.Perm(), path)
	}
	text, err := infile.All(f, path, infile.Kind{Name: "a key in PEM", BytesMax: pemBytesMax})
	if err != nil {
		return nil, wrong("%v", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, wrong("%s: found no key, want one in PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	signer, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, wrong("%s: found a block %.40q (%T, %v), want a key as certs makes them: ECDSA in PKCS 8", path,
			block.Type, key, err)
	}
	return signer, nil
}

func read(dir, name, want string) ([]byte, error) {
	text, err := infile.Read(filepath.Join(dir, name), infile.Kind{Name: want, BytesMax: pemBytesMax})
	if err != nil {
		return nil, unread(err, dir)
	}
	return text, nil
}

// unread is why a file of a folder can't be read.
func unread(err error, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return wrong("%v; `certs issue --out %s` makes a machine's folder, `certs init` an authority's", err, dir)
	}
	return wrong("%v", err)
}

// Server is for connections that come in: TLS 1.3, and the other side must have a certificate of one of the
// authorities, for any name.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{id.certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: id.authorities, SessionTicketsDisabled: true}
}

// Client is for connections to a machine with this name or address, for which its certificate must be.
func (id *Identity) Client(host string) *tls.Config {
	// By itself TLS shows no certificate to a machine that names other authorities, which would then only know that
	// there is none.
	own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.certificate, nil }
	return &tls.Config{MinVersion: tls.VersionTLS13, GetClientCertificate: own, RootCAs: id.authorities,
		ServerName: host}
}

// alerts are what TLS calls the reasons for which the other side refuses our certificate.
var alerts = []struct{ alert, text string }{
	{"expired certificate", "has expired, or isn't valid yet, by that machine's clock: `certs issue` makes a new one"},
	{"unknown certificate authority", "is of an authority that it doesn't know: " +
		"both machines need certificates of one"},
	{"bad certificate", "is no good there: both machines need certificates of one authority"},
	{"certificate required", "is missing: it expects one of its authority"},
	{"protocol version", "isn't reached: it doesn't speak TLS 1.3"},
}

// Explain puts into words why TLS with a machine has failed. Other errors get the machine's name.
func (id *Identity) Explain(err error, machine string) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var plain interface{ Timeout() bool }
	authority := filepath.Join(id.dir, AuthorityFile)
	switch text := err.Error(); {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("machine %s: its certificate is valid from %v until %v, and this machine's clock is at %v: "+
			"`certs issue` makes a new one, or a clock is wrong", machine, invalid.Cert.NotBefore,
			invalid.Cert.NotAfter, clock())
	case errors.As(err, &unknown):
		return fmt.Errorf("machine %s: its certificate was signed by another authority than that in %s: "+
			"both machines need certificates of one", machine, authority)
	case errors.As(err, &name):
		return fmt.Errorf("machine %s: its certificate is for %s, not for %s: `certs issue --host %s` makes one for "+
			"that", machine, hostsOf(name.Certificate), name.Host, name.Host)
	case isPlain(err):
		return fmt.Errorf("machine %s doesn't speak TLS there: give it --tls-dir instead of --insecure, or another "+
			"program has this port", machine)
	case strings.Contains(text, "remote error: tls: "):
		for _, a := range alerts {
			if strings.Contains(text, a.alert) {
				return fmt.Errorf("machine %s says that %s %s", machine, filepath.Join(id.dir, CertificateFile), a.text)
			}
		}
	case errors.As(err, &plain) && plain.Timeout():
		return fmt.Errorf("machine %s says nothing: it isn't an agent of disco, or is stopped (%w)", machine, err)
	}
	return fmt.Errorf("machine %s: %w", machine, err)
}

func isPlain(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header)
}

func hostsOf(c *x509.Certificate) string {
	all := c.DNSNames
	for _, a := range c.IPAddresses {
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return "no name"
	}
	return fmt.Sprintf("%.200s", strings.Join(all, ", "))
}
