// SPDX-License-Identifier: Apache-2.0

// Package dial opens the metadata store that a URL names.
//
// Guarantee: nothing is sent over a network without TLS, and no password is taken from a URL, where it would be seen in
// lists of processes and in logs.
//
//	store, err := dial.Open(ctx, dial.Options{URL: "etcd://127.0.0.1:2379", Group: "team-a"})
package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

// Form is how a URL of a store is written, for messages.
const Form = "etcd://[USER@]HOST:PORT,…[/PREFIX] or zk://[USER@]HOST:PORT,…[/CHROOT]"

// Options say which store, and how.
type Options struct {
	URL string // see Form

	// CA, Cert and Key are files in PEM: who signs the servers' certificates, and this client's certificate with
	// its key. CA alone, or all three; none on loopback.
	CA, Cert, Key string

	PasswordFile string        // of the URL's user; its last newline doesn't count
	Password     string        // the same, where it comes from somewhere else
	TTL          time.Duration // how long a silent client's session lasts; 0: 10 s

	Store metastore.Options // all but Chroot, which the URL has
}

// Address is a URL, read.
type Address struct {
	Engine string   // etcd or zk
	Hosts  []string // HOST:PORT
	User   string   // may be empty
	Chroot string   // without slashes at its ends; may be empty
}

// ports are the engines' own.
var ports = map[string]string{"etcd": "2379", "zk": "2181"}

// Parse reads a URL. The error says what is wrong and what the form is, and never repeats a password.
func Parse(text string) (*Address, error) {
	engine, rest, ok := strings.Cut(text, "://")
	if !ok || ports[engine] == "" {
		return nil, fmt.Errorf("the store's URL begins with %.20q: the form is %s", beforeAt(text), Form)
	}
	authority, path, _ := strings.Cut(rest, "/")
	a := &Address{Engine: engine, Chroot: strings.Trim(path, "/")}
	if user, hosts, ok := cutLast(authority, "@"); ok {
		if strings.Contains(user, ":") {
			return nil,
				errors.New("the store's URL has a password: everybody on this machine could read it. Put it into a " +
					"file (--store-password-file) or into DISCO_STORE_PASSWORD, and only the user into the URL")
		}
		name, err := url.PathUnescape(user)
		if err != nil || name == "" {
			return nil, fmt.Errorf("the store's URL: the user %q can't be read: the form is %s", user, Form)
		}
		a.User, authority = name, hosts
	}
	for host := range strings.SplitSeq(authority, ",") {
		address, err := CompleteAddress(host, ports[engine])
		if err != nil {
			return nil, fmt.Errorf("the store's URL: the host %q: %w; the form is %s", host, err, Form)
		}
		a.Hosts = append(a.Hosts, address)
	}
	if strings.ContainsAny(a.Chroot, "?#") {
		return nil, fmt.Errorf("the store's URL: %q holds ? or #, which it has no room for: the form is %s",
			a.Chroot, Form)
	}
	if _, err := metastore.Path("", a.Chroot); err != nil {
		return nil, fmt.Errorf("the store's URL: %w", err)
	}
	return a, nil
}

// beforeAt is a text without what may be a user with a password.
func beforeAt(text string) string {
	if _, after, ok := cutLast(text, "@"); ok {
		return "…@" + after
	}
	return text
}

// cutLast cuts at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}

// CompleteAddress completes an address that has no port by one, and checks it.
func CompleteAddress(text, port string) (string, error) {
	host := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		host = text[1 : len(text)-1]
	} else if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.Contains(text, ":") {
		return "", errors.New("write an IPv6 address in brackets, and a port behind a colon")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("the port %q isn't one of 1 to 65535", port)
	}
	if host == "" || strings.ContainsAny(host, " /@?#%[]") {
		return "", errors.New("there is no name or address of a host")
	}
	return net.JoinHostPort(host, port), nil
}

// Loopback tells whether all hosts are this machine, as their text says it: names are not looked up, but for
// localhost.
func (a *Address) Loopback() bool {
	for _, address := range a.Hosts {
		host, _, _ := net.SplitHostPort(address)
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// Open connects, and returns when the store has answered or ctx has ended. An error about the options comes at once.
func Open(ctx context.Context, o Options) (*metastore.Store, error) {
	_, store, err := OpenBoth(ctx, o)
	return store, err
}

// OpenBoth is Open, for those who need the store's backend, too: the store closes it.
func OpenBoth(ctx context.Context, o Options) (metastore.Backend, *metastore.Store, error) {
	a, err := Parse(o.URL)
	if err != nil {
		return nil, nil, &OptionsError{err}
	}
	secure, err := o.tls(a)
	if err != nil {
		return nil, nil, &OptionsError{err}
	}
	password, err := o.password(a)
	if err != nil {
		return nil, nil, &OptionsError{err}
	}
	failed := func(err error) error {
		if secure == nil {
			err = withTLS(err, a.Hosts)
		} else {
			err = whyTLS(err, a, secure)
		}
		return fmt.Errorf("the store %s: %w", strings.Join(a.Hosts, ","), err)
	}
	var backend metastore.Backend
	if a.Engine == "etcd" {
		backend, err = etcd.New(ctx, etcd.Options{Endpoints: a.Hosts, TLS: secure, User: a.User,
			Password: password, TTL: o.TTL, Report: o.Store.Report})
	} else {
		backend, err = zk.New(zk.Options{Servers: a.Hosts, TLS: secure, User: a.User, Password: password, TTL: o.TTL})
	}
	if err != nil {
		return nil, nil, failed(err)
	}
	o.Store.Chroot = a.Chroot
	store, err := metastore.New(ctx, backend, o.Store)
	if err != nil {
		return nil, nil, failed(err)
	}
	return backend, store, nil
}

// helloMax is how long it may take to find out whether the servers speak TLS.
const helloMax = time.Second

// withTLS adds to the error about a store that can't be reached that one of its servers speaks TLS, and this client
// doesn't.
func withTLS(err error, hosts []string) error {
	if !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helloMax)
	defer cancel()
	for _, host := range hosts {
		if speaksTLS(ctx, host) {
			return fmt.Errorf("%s speaks TLS: name the file of the certificate that signs the servers' ones "+
				"(--store-ca): %w", host, err)
		}
	}
	return err
}

// whyTLS adds to the error about a store that can't be reached what is wrong with a certificate. The engines' clients
// may still be at it when the time is over, or give another reason.
func whyTLS(err error, a *Address, secure *tls.Config) error {
	if !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helloMax)
	defer cancel()
	config := secure.Clone()
	if a.Engine == "etcd" {
		config.NextProtos = []string{"h2"} // else it hangs up
	}
	for _, host := range a.Hosts {
		if why := greet(ctx, host, config); why != nil {
			return fmt.Errorf("%s: %w: %w", host, why, err)
		}
	}
	return err
}

// greet begins TLS with a server, and says whose certificate is refused, and why; nil where none is.
func greet(ctx context.Context, host string, config *tls.Config) error {
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil
	}
	defer plain.Close()
	config.ServerName, _, _ = net.SplitHostPort(host)
	conn := tls.Client(plain, config)
	if err = conn.HandshakeContext(ctx); err == nil {
		// A server says what it thinks of a client's certificate afterwards, and within the time of a handshake.
		_ = conn.SetReadDeadline(time.Now().Add(helloMax / 4))
		_, err = conn.Read(make([]byte, 1))
	}
	if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the server's certificate is refused: %w (--store-ca names who signs it, and the URL a host "+
			"that it is for)", wrong.Err)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return fmt.Errorf("the server breaks TLS off: %w (it may refuse this client's certificate, or want one: "+
			"--store-cert, --store-key; the server's --ca names who signs it)", alert.Err)
	}
	return nil
}

// speaksTLS tells whether a server answers a greeting of TLS by its certificate, which isn't looked at. Nothing else
// is sent.
func speaksTLS(ctx context.Context, host string) (speaks bool) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error {
			speaks = true
			return errors.New("that is all")
		}}).HandshakeContext(ctx)
	return speaks
}

// OptionsError is a mistake in the options: nothing was sent.
type OptionsError struct{ Err error }

// Error says what is wrong.
func (e *OptionsError) Error() string { return e.Err.Error() }

// Unwrap gives what is wrong.
func (e *OptionsError) Unwrap() error { return e.Err }

// password finds the password of the URL's user.
func (o *Options) password(a *Address) (string, error) {
	password := o.Password
	if o.PasswordFile != "" {
		text, err := infile.Read(o.PasswordFile, infile.Kind{Name: "a file with a password", BytesMax: 4096})
		if err != nil {
			return "", fmt.Errorf("the store's password: %w", err)
		}
		if info, err := os.Stat(o.PasswordFile); err == nil && info.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("--store-password-file %s can be read by others: chmod 600 it", o.PasswordFile)
		}
		password = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	switch {
	case a.User == "" && o.PasswordFile != "":
		return "", fmt.Errorf("there is a password for the store and no user: write %s://USER@… in the URL", a.Engine)
	case a.User == "":
		return "", nil // one of the environment may be for another store
	case password == "":
		return "", fmt.Errorf("the store's user %q has no password: put it into a file (--store-password-file) or "+
			"into DISCO_STORE_PASSWORD", a.User)
	}
	return password, nil
}

// tls makes the settings for TLS, or nil where there is none.
func (o *Options) tls(a *Address) (*tls.Config, error) {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		if !a.Loopback() {
			return nil, fmt.Errorf("%s isn't this machine: the store is reached over a network by TLS only; name the "+
				"file of the certificate that signs the servers' ones (--store-ca)", strings.Join(a.Hosts, ","))
		}
		return nil, nil
	}
	if o.CA == "" || (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("TLS needs --store-ca, and --store-cert and --store-key both or neither")
	}
	text, err := infile.Read(o.CA, infile.Kind{Name: "certificates in PEM", BytesMax: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("--store-ca: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--store-ca: %s has no certificate in PEM", o.CA)
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("--store-cert %s, --store-key %s: %w", o.Cert, o.Key, err)
		}
		if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
			return nil, fmt.Errorf("--store-cert %s is good from %v to %v, which isn't now: have another one issued "+
				"(disco-run certs issue)", o.Cert, pair.Leaf.NotBefore, pair.Leaf.NotAfter)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
