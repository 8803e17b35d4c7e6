// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// organization is that of users' certificates. With it the whole name of a user's certificate is never a machine's, for
// servers that trust both authorities and go by the name.
const organization = "disco user"

// IssueUser makes a user's certificate in out, by which others know who this is: signed by the authority of users in
// dir, which is made there where it is missing. It is for no machine, and no machine trusts it as one.
func IssueUser(dir, out, user string, v Validity) error {
	if _, err := readCertificates(dir, AuthorityFile); err != nil {
		return err
	}
	if notThere(dir, UsersFile) && notThere(dir, UsersKeyFile) {
		machines, _, err := loadAuthority(dir, AuthorityFile, AuthorityKeyFile)
		if err != nil {
			return err
		}
		cert, key, err := newAuthority("disco authority of users", Validity{v.From, machines.NotAfter})
		if err == nil {
			err = writeNew(dir, []file{{UsersFile, cert}, {UsersKeyFile, key}})
		}
		if err != nil {
			return err
		}
	}
	return issue(dir, out, UsersFile, UsersKeyFile, &x509.Certificate{Subject: UserName(user),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, v)
}

// UserName is the whole name in a user's certificate.
func UserName(user string) pkix.Name {
	return pkix.Name{CommonName: user, Organization: []string{organization}}
}

// User is the user whose certificate this is, by its whole name; "" where it is none that IssueUser makes.
func User(c *x509.Certificate) string {
	if c == nil || c.Subject.String() != UserName(c.Subject.CommonName).String() {
		return ""
	}
	return c.Subject.CommonName
}

func notThere(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}

func pool(all []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range all {
		p.AddCert(c)
	}
	return p
}

// loadUsers reads the authorities of users, where the folder has any.
func (id *Identity) loadUsers(machines []*x509.Certificate) error {
	if notThere(id.dir, UsersFile) {
		return nil
	}
	all, err := readCertificates(id.dir, UsersFile)
	if err != nil {
		return err
	}
	for _, c := range all {
		if slices.ContainsFunc(machines, c.Equal) {
			return wrong("%s has an authority that %s has, too: each machine would be a user of its name; want that "+
				"of users alone, which `certs issue --user` makes", filepath.Join(id.dir, UsersFile),
				filepath.Join(id.dir, AuthorityFile))
		}
	}
	id.users, id.everybody = pool(all), slices.Concat(machines, all)
	return nil
}

// CheckServes refuses a folder that is a user's: nobody would believe that a machine serves by it.
func (id *Identity) CheckServes() error {
	uses := id.certificate.Leaf.ExtKeyUsage // none: it is good for everything
	if len(uses) > 0 && !slices.Contains(uses, x509.ExtKeyUsageServerAuth) {
		return wrong("%s is the certificate of user %s, want that of a machine, which `certs issue --host` makes",
			filepath.Join(id.dir, CertificateFile), id.certificate.Leaf.Subject.CommonName)
	}
	return nil
}

// Door is for connections that come in from machines and from users: TLS 1.3, and the other side must have a
// certificate of one of their authorities, unless it may come without: then it has to show otherwise who it is.
func (id *Identity) Door(without bool) *tls.Config {
	c := id.Server()
	if without {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if id.users != nil {
		c.ClientCAs = pool(id.everybody)
	}
	return c
}

// Peer is who is at the other side of a connection to a Door: a user, by a certificate of the authority of users; or ""
// for a machine, and for who has shown none. It is asked for each request: a certificate may have ended since the
// connection began.
func (id *Identity) Peer(state *tls.ConnectionState) (user string, err error) {
	if len(state.VerifiedChains) == 0 {
		return "", nil
	}
	own := state.PeerCertificates[0]
	if err := expiry("the certificate that was shown", own, "`certs issue` makes a new one"); err != nil {
		return "", err
	}
	if id.users == nil {
		return "", nil
	}
	_, err = own.Verify(x509.VerifyOptions{Roots: id.users, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return "", nil // a machine's
	}
	return own.Subject.CommonName, nil
}

// Authority is for connections of somebody who shows no certificate: the other side must have one of an authority in
// the folder, for this name or address. Of the folder nothing else is read.
func Authority(dir, host string) (*tls.Config, error) {
	all, err := readCertificates(dir, AuthorityFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool(all), ServerName: host}, nil
}

// HasOwn tells whether a folder has a certificate, or a key, of its own.
func HasOwn(dir string) bool { return !notThere(dir, CertificateFile) || !notThere(dir, KeyFile) }
