// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// passwordMax bounds what is read of a file of a password.
const passwordMax = 1024

// passwordLongest is the longest password, in bytes, of which etcd's hash uses all.
const passwordLongest = 72

// check refuses what can be refused before anything is opened.
func (o *options) check() error {
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %q is no address: write HOST:PORT", o.listen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--listen %q: the port is no number from 0 to 65535", o.listen)
	} else if n == 0 && !loopback(host) {
		return fmt.Errorf("--listen %q: port 0 is for loopback only: others have to know the port", o.listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("--listen %q names no machine: write the address at which others reach it", o.listen)
	}
	if o.quota < quotaMin || o.quota > quotaMax {
		return fmt.Errorf("--quota: found %d, want %d to %d MiB", o.quota, quotaMin, quotaMax)
	}
	files := 0
	for _, name := range []string{o.cert, o.key, o.ca} {
		if name != "" {
			files++
		}
	}
	switch {
	case files != 0 && files != 3:
		return errors.New("--cert, --key and --ca belong together: give all three, or none")
	case files == 0 && !loopback(host):
		return fmt.Errorf("--listen %s can be reached from other machines, and nothing protects it: "+
			"give --cert, --key and --ca, or listen on 127.0.0.1", o.listen)
	}
	if o.usersCA != "" && (files == 0 || o.passwordFile == "") {
		return errors.New("--users-ca is for a store with TLS that asks who one is: give --cert, --key, --ca and " +
			"--password-file")
	}
	for _, a := range o.join {
		if _, port, err := net.SplitHostPort(a); err != nil || port == "0" || port == "" {
			return fmt.Errorf("--join %q is no address: write HOST:PORT, the --listen of a running server", a)
		}
		if a == o.listen {
			return fmt.Errorf("--join %s is this server's own --listen: name others that run", a)
		}
	}
	return nil
}

// loopback tells whether only this machine can reach a host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// tlsConfig loads the certificate, to find out now whether it is any good, and is how this server talks to others;
// nil without TLS.
func (o *options) tlsConfig() (*tls.Config, error) {
	if o.cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("--cert %s and --key %s: %w", o.cert, o.key, err)
	}
	text, err := readFile(o.ca, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca %s holds no certificate in PEM", o.ca)
	}
	host, _, _ := net.SplitHostPort(o.listen)
	if err := pair.Leaf.VerifyHostname(host); err != nil {
		return nil, fmt.Errorf("--cert %s isn't for --listen %s: %w", o.cert, o.listen, err)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return nil, fmt.Errorf("--cert %s can't be checked by --ca %s (it has to be good for servers and clients: "+
				"servers call each other): %w", o.cert, o.ca, err)
		}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

// password reads the file of the password; "" without one.
func (o *options) password() (string, error) {
	if o.passwordFile == "" {
		return "", nil
	}
	text, err := readFile(o.passwordFile, passwordMax)
	if err != nil {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	if info, err := os.Stat(o.passwordFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("--password-file %s can be read by others: chmod 600 it", o.passwordFile)
	}
	p := strings.TrimRight(string(text), "\r\n")
	if p == "" {
		return "", fmt.Errorf("--password-file %s is empty", o.passwordFile)
	}
	if len(p) > passwordLongest {
		return "", fmt.Errorf("--password-file %s: found %d bytes, want a password of at most %d", o.passwordFile, len(p),
			passwordLongest)
	}
	return p, nil
}

// readFile reads a file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return text, err
}

// endpoint is an address as etcd writes it.
func (o *options) endpoint(address string) url.URL {
	if o.cert != "" {
		return url.URL{Scheme: "https", Host: address}
	}
	return url.URL{Scheme: "http", Host: address}
}

// bindable is an address whose host is a number, as etcd wants it for listening.
func bindable(address string) (string, error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", fmt.Errorf("%s: %w", address, err)
	}
	return a.String(), nil
}

// free tells whether an address can be listened on.
func free(address string) error {
	bind, err := bindable(address)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", bind)
	if err != nil {
		return err
	}
	return l.Close()
}

// choosePort gives an address on host whose port is free: the wanted one, or one below those that the kernel hands out
// to whoever dials, so that it is free at the next start too.
func choosePort(host string, wanted int, not string) (string, error) {
	for range 1000 {
		a := net.JoinHostPort(host, strconv.Itoa(wanted))
		if 0 < wanted && wanted < 1<<16 && a != not && free(a) == nil {
			return a, nil
		}
		wanted = 20000 + rand.IntN(12000)
	}
	return "", fmt.Errorf("no port of %s between 20000 and 32000 is free", host)
}
