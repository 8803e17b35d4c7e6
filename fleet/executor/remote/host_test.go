// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// newHost is a host and a connection to it, whose other end the test has.
func newHost(t *testing.T) (c *conn, ended chan error) {
	t.Helper()
	here, there := net.Pipe()
	ended = make(chan error, 1)
	go func() {
		ended <- Serve(context.Background(), there, HostOptions{Program: "/nowhere/disco-run", Version: "v1",
			Work: filepath.Join(t.TempDir(), "work")})
	}()
	c = newConn(here, time.Minute)
	t.Cleanup(func() { c.fail(io.EOF) })
	return c, ended
}

// good is what an agent says.
func good() *hello {
	return &hello{Protocol: protocol, Version: "v1", Mark: "disco-1", Name: "a", Grace: time.Second,
		Silent: time.Minute, Cache: 1 << 20}
}

// ready greets a host until it takes requests, or gives what it says.
func ready(c *conn, h *hello) error {
	if err := c.write([]byte(preamble)); err != nil {
		return err
	}
	if err := c.send(kindHello, &message{Hello: h}); err != nil {
		return err
	}
	if _, err := c.greet(); err != nil {
		return err
	}
	for {
		k, m, _, err := c.receive()
		switch {
		case err != nil || k == kindReady:
			return err
		case k == kindRefused:
			return errors.New(m.Error)
		}
	}
}

// ends waits for the end of a host, and for what it says.
func ends(t *testing.T, ended chan error, want string) {
	t.Helper()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the host ends with %v, want %q in it", err, want)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("the host doesn't end, want %q", want)
	}
}

// TestHostRefusesAgents whose versions are others, or who ask for what none asks for.
func TestHostRefusesAgents(t *testing.T) {
	newer := fmt.Sprintf(`the agent speaks version %d of the protocol (it is "v1"), this host speaks %d ("v1"): `+
		"install", protocol+1, protocol)
	for want, change := range map[string]func(h *hello){
		newer: func(h *hello) { h.Protocol = protocol + 1 },
		`the agent is version "v0", this host is "v1": install the same version`: func(h *hello) { h.Version = "v0" },
		`found the mark "../x"`:      func(h *hello) { h.Mark = "../x" },
		`the name ""`:                func(h *hello) { h.Name = "" },
		`silence 1ns`:                func(h *hello) { h.Silent = 1 },
		`grace 2h0m0s`:               func(h *hello) { h.Grace = 2 * time.Hour },
		`wait for locks -1ns`:        func(h *hello) { h.Locked = -1 },
		`cache -1; want letters, di`: func(h *hello) { h.Cache = -1 },
	} {
		c, ended := newHost(t)
		h := good()
		change(h)
		if err := ready(c, h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q in it", err, want)
		}
		ends(t, ended, want)
	}
}

// TestHostRefusesFrames: a connection with something else than the protocol ends, and says what was found.
func TestHostRefusesFrames(t *testing.T) {
	send := func(k kind, text string) []byte {
		return append([]byte{0, 0, 0, byte(len(text) + 1), byte(k)}, text...)
	}
	job := `{"id":1,"job":{"Experiment":"x","Attempt":"0.0.0.1","File":"%s","Replications":1,"Workers":%d}}`
	for want, bytes := range map[string][]byte{
		"found a frame of 4294967295 bytes, want 1 to 2097152": {255, 255, 255, 255, 1},
		"found a frame of 0 bytes":                             {0, 0, 0, 0, 1},
		"found a frame of kind 99, want 1 to":                  send(99, "{}"),
		"found a message of kind 5 that can't be read":         send(kindPrepare, `{"id":"x"}`),
		"found a request without a job":                        send(kindPrepare, `{"id":1}`),
		`with the file "../x", 1 workers`:                      send(kindPrepare, fmt.Sprintf(job, "../x", 1)),
		`with the file "x", 0 workers`:                         send(kindStart, fmt.Sprintf(job, "x", 0)),
		"found 3 bytes of a blob, want its number":             send(kindBlob, "abc"),
		"found a frame of kind 11 of an agent":                 send(kindAnswer, "{}"),
		"EOF":                                                  nil,
	} {
		c, ended := newHost(t)
		if err := ready(c, good()); err != nil {
			t.Fatal(err)
		}
		if bytes == nil {
			c.fail(io.EOF)
		} else if err := c.write(bytes); err != nil {
			t.Error(err)
		}
		ends(t, ended, want)
	}
	c, ended := newHost(t)
	if err := c.write([]byte("\x00disco-ho!")); err != nil {
		t.Error(err)
	}
	ends(t, ended, `found "\x00disco-ho!" before the first frame: an agent of the fleet starts this`)
}

// TestHostSilent: an agent from which nothing comes is none any more.
func TestHostSilent(t *testing.T) {
	c, ended := newHost(t)
	h := good()
	h.Silent = time.Second
	if err := ready(c, h); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, _, _, err := c.receive(); err != nil {
				return
			}
		}
	}()
	ends(t, ended, "nothing has come from the other side for 1s")
}

// blobJob is a job with a text that the test has to send.
func blobJob(experiment string) *executor.Job {
	return &executor.Job{Experiment: experiment, File: "x.yml", Workers: 1, Replications: 1,
		Attempt: fleet.AttemptID{Attempt: 1}, Text: fleet.Digest{SHA256: strings.Repeat("ab", 32), Bytes: 10}}
}

// receives gives the next frame that is no ping.
func receives(t *testing.T, c *conn) (kind, *message) {
	t.Helper()
	for {
		k, m, _, err := c.receive()
		if err != nil {
			t.Fatal(err)
		}
		if k != kindPing {
			return k, m
		}
	}
}

// TestHostFull: it takes requests up to a number, and asks for some blobs at a time; what comes behind is refused, and
// all goes on when there is room.
func TestHostFull(t *testing.T) {
	c, ended := newHost(t)
	if err := ready(c, good()); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := range requestsMax + 1 {
			job := blobJob(fmt.Sprintf("x%d", i))
			err = errors.Join(err, c.send(kindPrepare, &message{ID: uint64(i + 1), Job: job}))
		}
		sent <- err
	}()
	var fetches []uint64
	for refused := false; !refused; {
		switch k, m := receives(t, c); k {
		case kindFetch:
			fetches = append(fetches, m.ID)
		case kindAnswer:
			refused = true
			if m.ID != requestsMax+1 || !strings.Contains(m.Error, "it works at 1024 requests, and takes no more") {
				t.Errorf("found the answer %+v, want that request %d is one too many", m, requestsMax+1)
			}
		}
	}
	if err := <-sent; err != nil || len(fetches) != fetchesMax {
		t.Errorf("found requests for the blobs %d, %v, want %d", fetches, err, fetchesMax)
	}
	go c.sendBlob(fetches[0], nil, errors.New("there is none"))
	fetched, answered := false, false
	for !fetched || !answered {
		switch k, m := receives(t, c); k {
		case kindFetch:
			fetched = true
		case kindAnswer:
			answered = true
			if !strings.Contains(m.Error, "there is none") {
				t.Errorf("found the answer %+v, want that there is no blob", m)
			}
		}
	}
	go func() {
		for range 2 { // more than the 10 bytes of its digest
			_ = c.sendBytes(kindBlob, append(make([]byte, 7), byte(fetches[1]), 'a', 'a', 'a', 'a', 'a', 'a'))
		}
	}()
	ends(t, ended, "found more than 11 bytes of a blob, want 10")
}

// FuzzReceive: whatever comes, it is a frame or an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x09\x01{\"id\":1}"))
	f.Add([]byte("\x00\x00\x00\x0a\x0dabcdefghi"))
	f.Fuzz(func(t *testing.T, text []byte) {
		here, there := net.Pipe()
		c := newConn(here, time.Minute)
		defer c.fail(io.EOF)
		go func() {
			_, _ = there.Write(text) // the other end may have had enough
			there.Close()
		}()
		for {
			k, m, blob, err := c.receive()
			if err != nil {
				return
			}
			if k < kindHello || k > kindDone || m == nil || (k == kindBlob) != (blob != nil) {
				t.Fatalf("found kind %d, %+v and %d bytes", k, m, len(blob))
			}
		}
	})
}
