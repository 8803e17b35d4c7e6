// SPDX-License-Identifier: Apache-2.0

package webserver

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Who isn't meant, or wants something else than to read, is refused, and a browser is told what it may do.
func TestGuard(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		method, host, name string
		want               int
	}{
		{"GET", "127.0.0.1", "", 200}, {"HEAD", "[::1]:80", "", 200}, {"GET", "localhost:1", "", 200},
		{"GET", "LOCALHOST", "", 200}, {"GET", "run.localhost", "", 200}, {"GET", "10.1.2.3:80", "", 200},
		{"GET", "box.example:80", "box.example", 200}, {"GET", "BOX.example", "box.example", 200},
		{"GET", "evil.example", "box.example", 421}, {"GET", "127.0.0.1.evil.example", "", 421}, {"GET", "", "", 421},
		{"GET", "localhost.evil.example", "", 421}, {"GET", "any.example", AnyName, 200},
		{"POST", "127.0.0.1", "", 405}, {"DELETE", "any.example", AnyName, 405}, {"OPTIONS", "localhost", "", 405},
	} {
		w := httptest.NewRecorder()
		New(page, c.name).Handler.ServeHTTP(w, &http.Request{Method: c.method, Host: c.host, Header: http.Header{}})
		if w.Code != c.want {
			t.Errorf("%+v: status %d", c, w.Code)
		}
		h := w.Header()
		if p := h.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: %v", c, h)
		}
	}
}

// A server at an address that is open to others is asked by this machine's name, too, one of the loopback isn't.
func TestNames(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address, at string
		want        []string
	}{
		{"127.0.0.1:80", "127.0.0.1:80", []string{"127.0.0.1"}}, {"localhost:0", "[::1]:81", []string{"localhost"}},
		{"0.0.0.0:80", "0.0.0.0:80", []string{"0.0.0.0", own}}, {":80", "[::]:80", []string{own}},
		{"box:80", "10.0.0.1:80", []string{"box", own}},
	} {
		if got := Names(c.address, netip.MustParseAddrPort(c.at)); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.address, got, c.want)
		}
	}
}

// As many connections as may be are answered, the next one when one of them ends; and errors say what to do.
func TestListen(t *testing.T) {
	l, at, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if Open(at) || at.Port() == 0 {
		t.Errorf("found %v", at)
	}
	if _, _, err := Listen(at.String()); err == nil || !strings.Contains(err.Error(), "port is in use: name another") {
		t.Errorf("found %v", err)
	}
	if _, _, err := Listen("192.0.2.1:0"); err == nil || !strings.Contains(err.Error(), "has no such address") {
		t.Errorf("found %v", err)
	}
	server := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	open := make([]net.Conn, connectionsMax)
	for i := range open {
		if open[i], err = net.Dial("tcp", at.String()); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range open { // all of them are taken
		if text := ask(t, c); !strings.Contains(text, "here") {
			t.Fatalf("connection %d: %s", i, text)
		}
	}
	answered := make(chan string)
	go func() {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer c.Close()
		answered <- ask(t, c)
	}()
	select {
	case text := <-answered:
		t.Errorf("one more than may be was answered: %s", text)
	default:
	}
	open[0].Close()
	if text := <-answered; !strings.Contains(text, "here") {
		t.Error(text)
	}
	for _, c := range open[1:] {
		c.Close()
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// ask asks for / and gives what comes first.
func ask(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err.Error()
	}
	buf := make([]byte, 4096)
	text := ""
	for !strings.Contains(text, "here") {
		n, err := c.Read(buf)
		text += string(buf[:n])
		if err != nil {
			return text + err.Error()
		}
	}
	return text
}
