// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/certs"
)

// TestUnfit: who can't be an agent of this run is refused in words, with its address, before it is asked anything;
// who can't be a launcher reaches nothing.
func TestUnfit(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	good := ours(certs.Period(1), "127.0.0.1")
	agent := newAgent(t, "127.0.0.1:0", secure(t, good), theAgent)
	unsafe := newAgent(t, "127.0.0.1:0", plain(t), theAgent)
	elsewhere := newAgent(t, "127.0.0.1:0", secure(t, ours(certs.Period(1), "h9")), theAgent)
	closing := serving(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	talking := serving(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail\r\n"); _, _ = io.Copy(io.Discard, c) })
	for _, c := range []struct {
		address  string
		security *stream.Security
		want     string
	}{
		{agent.address, secure(t, good), ""},
		{unsafe.address, plain(t), ""},
		{agent.address, secure(t, theirs(certs.Period(1), "127.0.0.1")), "was signed by another authority"},
		{elsewhere.address, secure(t, good), "its certificate is for h9, not for 127.0.0.1"},
		{unsafe.address, secure(t, good), "doesn't speak TLS there"},
		{agent.address, plain(t), "it expects TLS, which is --tls-dir here"},
		{closing, secure(t, good), "is no agent of disco"},
		{closing, plain(t), "is no agent of disco"},
		{talking, secure(t, good), "doesn't speak TLS there"},
		{talking, plain(t), "it isn't one of disco"},
	} {
		l, err := lookAt(limit(t), c.address, c.security)
		var refused *stream.RefusedError
		if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.address) || !errors.As(err, &refused)) {
			t.Errorf("%+v, %v (%T), want %q", l, err, err, c.want)
		}
	}
	await(t, "the agent reports who has come", func() bool {
		agent.mu.Lock()
		defer agent.mu.Unlock()
		return len(agent.refused) >= 2
	})
}

// TestBusy: an agent that closes connections which it hasn't looked at in time is tried again, and gets one offer;
// one that always does so is told as that when the time is over, and what closes them at once, sooner.
func TestBusy(t *testing.T) {
	dir := authority(t)(certs.Period(1), "127.0.0.1")
	for _, s := range []*stream.Security{plain(t), secure(t, dir)} {
		a := newAgent(t, "127.0.0.1:0", s, theAgent)
		var came atomic.Int32
		busy := serving(t, func(c net.Conn) {
			if came.Add(1) > 2 {
				passOn(c, a.address)
			}
		})
		r, err := Open(limit(t), []Target{{"m0", busy, 1}}, *asked(1, nil), s)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		a.mu.Lock()
		if n := len(a.works); n != 1 || came.Load() != 3 {
			t.Errorf("%d offers over the last of %d connections, want 1 and 3", n, came.Load())
		}
		a.mu.Unlock()
	}
	why := errors.New("the time is over")
	for _, c := range []struct {
		closes, limit time.Duration
		want          string
	}{{600 * time.Millisecond, 1500 * time.Millisecond, why.Error()}, {0, time.Minute, " times in "}} {
		late := serving(t, func(net.Conn) { time.Sleep(c.closes) })
		for _, s := range []*stream.Security{plain(t), secure(t, dir)} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.limit, why)
			_, err := lookAt(ctx, late, s)
			early := ctx.Err() == nil
			cancel()
			var refused *stream.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || early != (c.closes == 0) ||
				!strings.Contains(err.Error(), "is too busy to take a connection within 1s") {
				t.Errorf("%v (%T), want %q, and that it may be too busy", err, err, c.want)
			}
		}
	}
}

// passOn passes on what comes on a connection to an address, and back.
func passOn(c net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, c); to.Close() }()
	_, _ = io.Copy(c, to)
}

// TestEnding: an agent that ends while it is asked is told as that, whoever closes the connection first.
func TestEnding(t *testing.T) {
	for _, s := range []*stream.Security{plain(t), secure(t, authority(t)(certs.Period(1), "127.0.0.1"))} {
		for range 5 {
			a := newAgent(t, "127.0.0.1:0", s, theAgent)
			var c *Client
			await(t, "the agent is reached", func() bool { // in time: it closes what says nothing for 3 s
				var err error
				c, err = Dial(limit(t), a.address, s)
				return err == nil
			})
			defer c.Close()
			ended := make(chan error)
			go func() { ended <- a.Close() }()
			var err error
			for err == nil {
				_, err = c.Look(limit(t))
			}
			var refused *stream.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), a.address) ||
				!strings.Contains(err.Error(), "is ending") {
				t.Errorf("%v (%T), want that its agent is ending", err, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}

func lookAt(ctx context.Context, address string, s *stream.Security) (*Looked, error) {
	c, err := Dial(ctx, address, s)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Look(ctx)
}

// serving is a server that is no agent.
func serving(t *testing.T, talk func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			all.Go(func() { talk(c); c.Close() })
		}
	})
	return l.Addr().String()
}

// TestSilent: a machine that says nothing ends a look when its time is over, with TLS and without.
func TestSilent(t *testing.T) {
	done := make(chan struct{})
	silent := serving(t, func(c net.Conn) { <-done })
	defer close(done)
	why := errors.New("the time is over")
	for _, s := range []*stream.Security{plain(t), secure(t, authority(t)(certs.Period(1), "127.0.0.1"))} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, why)
		_, err := lookAt(ctx, silent, s)
		cancel()
		var refused *stream.RefusedError
		if !errors.Is(err, why) || !strings.Contains(err.Error(), silent) || errors.As(err, &refused) {
			t.Error(err)
		}
	}
}

// TestNoCertificate: who shows no certificate reaches nothing.
func TestNoCertificate(t *testing.T) {
	agent := newAgent(t, "127.0.0.1:0", secure(t, authority(t)(certs.Period(1), "127.0.0.1")), theAgent)
	c, err := tls.Dial("tcp", agent.address, &tls.Config{InsecureSkipVerify: true})
	if err == nil { // TLS 1.3: the refusal comes behind the handshake
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Error(err)
	}
}
