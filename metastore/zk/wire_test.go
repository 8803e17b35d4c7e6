// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

// reply is a packet without its length, as the server sends it.
func reply(xid int32, zxid int64, c code) packet {
	return packet{}.int32(xid).int64(zxid).int32(int32(c))
}

// statBytes is a stat as the server sends it.
func statBytes(s stat) packet {
	return packet{}.int64(s.czxid).int64(7).int64(7).int64(7).int32(s.version).int32(7).int32(7).int64(s.owner).
		int32(s.size).int32(s.children).int64(7)
}

func TestDecode(t *testing.T) {
	s := stat{czxid: 1<<40 + 1, version: 2, owner: 3, size: 4, children: 5}
	for name, c := range map[string]struct {
		op    int32
		body  packet
		check func(c *call) bool
	}{
		"getData": {opGetData, append(packet{}.text("hello"), statBytes(s)...), nil},
		"no data": {opGetData, append(packet{}.int32(-1), statBytes(s)...),
			func(c *call) bool { return c.value == nil }},
		"exists":      {opExists, statBytes(s), nil},
		"getChildren": {opGetChildren, append(packet{}.int32(2).text("a").text("b"), statBytes(s)...), nil},
		"create":      {opCreate, packet{}.text("/a"), func(c *call) bool { return c.name == "/a" }},
		"multi": {opMulti, packet{}.int32(opCheck).bool(false).int32(0).int32(opCreate).bool(false).int32(0).text("/a").
			int32(-1).bool(true).int32(-1), func(c *call) bool { return c.code == codeOK }},
		"multi that fails": {opMulti, packet{}.int32(-1).bool(false).int32(0).int32(0).int32(-1).bool(false).
			int32(-110).int32(-110).int32(-1).bool(false).int32(-2).int32(-2).int32(-1).bool(true).int32(-1),
			func(c *call) bool { return c.code == codeNodeExists }},
	} {
		got, a := newCall(c.op, nil), answer{rest: c.body}
		got.decode(&a)
		if a.bad || len(a.rest) > 0 {
			t.Errorf("%s: bad %v, %d bytes are left", name, a.bad, len(a.rest))
		}
		if c.check != nil && !c.check(got) || c.check == nil && got.stat != s {
			t.Errorf("%s: found %+v", name, got)
		}
		for n := range c.body { // whatever is cut off is noticed
			a := answer{rest: c.body[:n]}
			newCall(c.op, nil).decode(&a)
			if !a.bad {
				t.Errorf("%s: the first %d bytes are taken for all", name, n)
			}
		}
	}
}

// FuzzTake: nothing that a server sends does more than end the connection.
func FuzzTake(f *testing.F) {
	f.Add(byte(0), []byte(append(reply(1, 5, 0), append(packet{}.text("v"), statBytes(stat{})...)...)))
	f.Add(byte(3), []byte(append(reply(1, 5, 0), packet{}.int32(1<<30)...)))
	f.Add(byte(5), []byte(append(reply(1, 5, 0), packet{}.int32(-1).bool(true).int32(-1)...)))
	f.Add(byte(0), []byte(reply(xidEvent, -1, 0).int32(eventChanged).int32(3).text("/a")))
	f.Fuzz(func(t *testing.T, kind byte, frame []byte) {
		ops := []int32{opGetData, opExists, opSetData, opGetChildren, opCreate, opMulti, opSync}
		c := newConn(nil, &link{})
		follows := &feed{b: &Backend{closed: make(chan struct{})}, path: "/a", changed: make(chan struct{}, 1),
			closed: make(chan struct{})}
		waits := read(ops[int(kind)%len(ops)], "/a", follows)
		if _, err := c.queue([]*call{waits}); err != nil {
			t.Fatal(err)
		}
		err := c.take(&answer{rest: bytes.Clone(frame)})
		select {
		case <-waits.done:
			if (waits.err == nil) != (err == nil) {
				t.Errorf("the call has %v, the connection %v", waits.err, err)
			}
		default:
		}
		if err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("found %v", err)
		}
	})
}

// FuzzFrame: a length is bounded before it is believed.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'a', 'b'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := readFrame(bufio.NewReader(bytes.NewReader(text)))
		if err == nil && !slices.Equal(frame, text[4:4+len(frame)]) {
			t.Errorf("found %q", frame)
		}
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !errors.Is(err, errMalformed) && !ended {
			t.Errorf("found %v", err)
		}
	})
}

// TestNumbered: ZooKeeper counts 31 bits and goes on below zero, where names don't sort after others any more.
func TestNumbered(t *testing.T) {
	for name, want := range map[string]bool{"/q/p0000000000": true, "/q/p2147483647": true, "/q/p-2147483648": false,
		"/q/p-000000001": false, "/q/p000000000": false, "/q/p": false, "/r/p0000000000": false} {
		if got := numbered(name, "/q/p"); got != want {
			t.Errorf("%s: found %v", name, got)
		}
	}
}
