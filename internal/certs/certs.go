// SPDX-License-Identifier: Apache-2.0

// Package certs makes and reads the certificates by which machines of a group know each other: a private authority, and
// for each machine a certificate that the authority has signed. docs/group.md shows how they are used.
//
// Users have certificates of an authority of their own, which lies beside that of machines: what trusts machines, such
// as agents and the servers of a store among each other, doesn't trust a user's certificate.
//
// Guarantee: no file is overwritten, and each is readable by its owner only; a certificate that has expired, that isn't
// valid yet, or that belongs to another key or authority is refused when it is read, with the file and the dates;
// connections are TLS 1.3 with both sides verified.
//
//	err := certs.Init("authority", certs.Period(3650))
//	err = certs.Issue("authority", "h1", []string{"h1", "10.0.0.1"}, certs.Period(365))
//	id, err := certs.Load("h1")
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files. An authority's folder has those of the two authorities, with their keys; a machine's or a user's folder
// has all but these keys.
const (
	AuthorityFile    = "ca.pem"
	AuthorityKeyFile = "ca-key.pem"
	UsersFile        = "users.pem"
	UsersKeyFile     = "users-key.pem"
	CertificateFile  = "cert.pem"
	KeyFile          = "key.pem"
)

// early is how long before now a certificate is valid already: clocks of machines differ.
const early = time.Hour

// Error is a mistake in what was given: a name, a file, a folder. It says where, what was found, what is allowed, and
// what to do.
type Error struct{ text string }

// Error is the text.
func (e *Error) Error() string { return e.text }

func wrong(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Validity is the time during which a certificate is valid.
type Validity struct{ From, Until time.Time }

// Period is from an hour ago, since clocks differ, until so many days from now.
func Period(days int) Validity {
	now := time.Now()
	return Validity{now.Add(-early), now.Add(time.Duration(days) * 24 * time.Hour)}
}

// Init makes an authority in dir: its certificate and its key, and those of its users. The keys sign certificates and
// are needed for nothing else, so they had better stay on a machine that takes no part in runs.
func Init(dir string, v Validity) error {
	cert, key, err := newAuthority("disco authority", v)
	if err != nil {
		return err
	}
	usersCert, usersKey, err := newAuthority("disco authority of users", v)
	if err != nil {
		return err
	}
	return writeNew(dir, []file{{AuthorityFile, cert}, {AuthorityKeyFile, key}, {UsersFile, usersCert},
		{UsersKeyFile, usersKey}})
}

// newAuthority makes an authority's certificate and key in PEM.
func newAuthority(name string, v Validity) (certText, keyText []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate(v)
	if err != nil {
		return nil, nil, err
	}
	template.Subject = pkix.Name{CommonName: fmt.Sprintf("%s %.4x", name, template.SerialNumber.Bytes())}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("certs: %w", err)
	}
	keyText, err = encodeKey(key)
	return encodeCertificate(cert), keyText, err
}

// Issue makes a machine's certificate in out, signed by the authority in dir, for the names and addresses at which
// other machines reach it. Its validity ends with the authority's at the latest.
func Issue(dir, out string, hosts []string, v Validity) error {
	if err := checkHosts(hosts); err != nil {
		return err
	}
	is := &x509.Certificate{Subject: pkix.Name{CommonName: hosts[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h); err == nil {
			is.IPAddresses = append(is.IPAddresses, a.AsSlice())
		} else {
			is.DNSNames = append(is.DNSNames, h)
		}
	}
	return issue(dir, out, AuthorityFile, AuthorityKeyFile, is, v)
}

// issue makes a certificate as is says, signed by the authority of the files in dir, with what its folder needs.
func issue(dir, out, authorityFile, keyFile string, is *x509.Certificate, v Validity) error {
	authority, authorityKey, err := loadAuthority(dir, authorityFile, keyFile)
	if err != nil {
		return err
	}
	if authority.NotAfter.Before(v.Until) {
		v.Until = authority.NotAfter
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	template, err := newTemplate(v)
	if err != nil {
		return err
	}
	is.SerialNumber, is.NotBefore, is.NotAfter = template.SerialNumber, template.NotBefore, template.NotAfter
	is.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := x509.CreateCertificate(rand.Reader, is, authority, key.Public(), authorityKey)
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	keyText, err := encodeKey(key)
	if err != nil {
		return err
	}
	files, err := authorities(dir)
	if err != nil {
		return err
	}
	return writeNew(out, append(files, file{CertificateFile, encodeCertificate(cert)}, file{KeyFile, keyText}))
}

// authorities are the certificates of an authority's folder that everybody gets. Folders of before users had
// certificates have none for these.
func authorities(dir string) (files []file, err error) {
	for _, name := range []string{AuthorityFile, UsersFile} {
		all, err := readCertificates(dir, name)
		if name == UsersFile && notThere(dir, name) {
			continue
		} else if err != nil {
			return nil, err
		}
		files = append(files, file{name, encodeCertificate(all[0].Raw)})
	}
	return files, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return key, nil
}

func newTemplate(v Validity) (*x509.Certificate, error) {
	if !v.Until.After(v.From) {
		return nil, wrong("a certificate that is valid from %v until %v: want an end after the begin", v.From, v.Until)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, NotBefore: v.From, NotAfter: v.Until}, nil
}

// checkHosts holds hosts against what names and addresses may be.
func checkHosts(hosts []string) error {
	if len(hosts) == 0 || len(hosts) > 100 {
		return wrong("found %d hosts, want 1 to 100: the names and addresses at which others reach the machine",
			len(hosts))
	}
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h); (err != nil || a.Zone() != "") && !isName(h) {
			return wrong("found the host %.300q, want a name such as h1.example.org, or an address, without a port", h)
		}
	}
	return nil
}

// isName holds a name of a machine against what names may be.
func isName(h string) bool {
	if len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

type file struct {
	name string
	text []byte
}

// writeNew writes all files of a folder, or none. It makes the folder if it isn't there.
func writeNew(dir string, files []file) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return wrong("%s: found what can't be a folder (%v), want one, or a name in one that can be written to: name "+
			"another", dir, err)
	}
	for _, f := range files { // so that none is made where another one is there
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			return exists(dir, f.name)
		}
	}
	for i, f := range files {
		if err = writeOne(dir, f); err != nil {
			for _, made := range files[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, made.name)))
			}
			return err
		}
	}
	return nil
}

func exists(dir, name string) error {
	return wrong("%s is there already, and is not overwritten: name another folder, or delete it",
		filepath.Join(dir, name))
}

func writeOne(dir string, f file) error {
	path := filepath.Join(dir, f.name)
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return exists(dir, f.name)
	} else if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	_, err = w.Write(f.text)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return fmt.Errorf("certs: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
