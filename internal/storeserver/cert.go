// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are files in PEM with which servers and clients of the loopback know each other, for a day.
type Certificates struct {
	CA   string // the authority's certificate
	Cert string // for servers and clients
	Key  string // of Cert
	Both string // Cert and Key in one file
}

// CertificatesIn are those that NewCertificates has made in a folder.
func CertificatesIn(dir string) *Certificates {
	in := func(name string) string { return filepath.Join(dir, name) }
	return &Certificates{in("ca.pem"), in("cert.pem"), in("key.pem"), in("both.pem")}
}

// NewCertificates makes an authority, and a certificate that it has signed, in a folder. The certificate is for the
// loopback, and for the addresses given.
func NewCertificates(dir string, addrs ...net.IP) (*Certificates, error) {
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: append(addrs, net.IPv4(127, 0, 0, 1))}
	c := CertificatesIn(dir)
	var files [4][]byte
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, root.Public(), root)
	if err != nil {
		return nil, err
	}
	files[0] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	if signed, err = x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), root); err != nil {
		return nil, err
	}
	files[1] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	files[2] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	files[3] = append(append([]byte{}, files[2]...), files[1]...)
	for i, path := range []string{c.CA, c.Cert, c.Key, c.Both} {
		if err := os.WriteFile(path, files[i], 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Client is what a client needs that knows the authority, and shows the certificate.
func (c *Certificates) Client() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("storeserver: %w", err)
	}
	f, err := os.Open(c.CA)
	if err != nil {
		return nil, fmt.Errorf("storeserver: %w", err)
	}
	defer f.Close()
	var ca bytes.Buffer
	if _, err := io.Copy(&ca, io.LimitReader(f, 1<<16)); err != nil {
		return nil, fmt.Errorf("storeserver: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.Bytes()) {
		return nil, fmt.Errorf("storeserver: %s holds no certificate", c.CA)
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
