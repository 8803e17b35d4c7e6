// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// held is the far end of a connection that answers when it is told to.
type held struct {
	t    *testing.T
	net  net.Conn
	conn *conn
	got  [][2]int32 // operation and number of each request, in their order
	done int        // of these were answered
	read chan struct{}
}

func newHeld(t *testing.T) *held {
	near, far := net.Pipe()
	h := &held{t: t, net: far, read: make(chan struct{}),
		conn: newConn(near, &link{ttl: time.Minute, lost: make(chan struct{})})}
	go h.conn.read(bufio.NewReader(near))
	go func() {
		defer close(h.read)
		for r := bufio.NewReader(far); ; {
			frame, err := readFrame(r)
			if err != nil {
				return
			}
			op, xid := binary.BigEndian.Uint32(frame[4:]), binary.BigEndian.Uint32(frame)
			h.got = append(h.got, [2]int32{int32(op), int32(xid)})
		}
	}()
	return h
}

// ops are the requests since the first n, once all goroutines wait.
func (h *held) ops(n int) (ops []int32) {
	synctest.Wait()
	for _, r := range h.got[n:] {
		ops = append(ops, r[0])
	}
	return ops
}

// answer answers the next n requests.
func (h *held) answer(n int) {
	h.t.Helper()
	synctest.Wait()
	for _, r := range h.got[h.done : h.done+n] {
		body := packet{}.int32(0).int32(r[1]).int64(1).int32(0)
		if r[0] == opMulti {
			body = body.int32(-1).bool(true).int32(-1)
		} else {
			body = append(body.text("value"), statBytes(stat{czxid: 1})...)
		}
		body.length()
		if _, err := h.net.Write(body); err != nil {
			h.t.Error(err)
		}
	}
	h.done += n
	synctest.Wait()
}

func (h *held) close() {
	h.conn.fail(errors.New("the test is over"))
	<-h.read
}

// reads begins n reads, whose errors come from the channel.
func (h *held) reads(ctx context.Context, n int) chan error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- h.conn.behind(ctx, &h.conn.strict, read(opGetData, fmt.Sprint("/", i), nil)) }()
	}
	synctest.Wait()
	return errs
}

// Reads that come while fences are under way wait, and share the next one, which is sent after all of them came.
func TestReadsShareAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		defer h.close()
		early := h.reads(t.Context(), fencesMax) // each with its own at once
		if ops := h.ops(0); !slices.Equal(ops, []int32{opMulti, opGetData, opMulti, opGetData}) {
			t.Fatalf("the first reads sent %v", ops)
		}
		late := h.reads(t.Context(), 50)
		if ops := h.ops(4); len(ops) > 0 {
			t.Fatalf("reads were sent behind a fence that is under way: %v", ops)
		}
		h.answer(1) // the fence alone: its own read has no answer yet
		if ops := h.ops(4); len(ops) != 51 || ops[0] != opMulti || slices.Contains(ops[1:], opMulti) {
			t.Fatalf("50 reads sent %v, want one fence and the reads behind it", ops)
		}
		if len(early)+len(late) > 0 {
			t.Error("a read has ended without an answer")
		}
		h.answer(3 + 51)
		for range fencesMax {
			if err := <-early; err != nil {
				t.Error(err)
			}
		}
		for range 50 {
			if err := <-late; err != nil {
				t.Error(err)
			}
		}
	})
}

// A caller that leaves holds up nobody, whether it waits for the fence to be sent or for an answer.
func TestFenceWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		defer h.close()
		ctx, cancel := context.WithCancel(t.Context())
		sent := h.reads(ctx, fencesMax)
		waits := h.reads(ctx, 1)
		stays := h.reads(t.Context(), 1)
		cancel()
		synctest.Wait()
		for _, errs := range []chan error{sent, sent, waits} {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("a read whose context has ended: %v", err)
			}
		}
		h.answer(2 * fencesMax)
		h.answer(3) // one fence, the read that was given up, the read that wasn't
		if err := <-stays; err != nil {
			t.Error(err)
		}
		abandoned, leave := context.WithCancel(t.Context())
		h.reads(t.Context(), fencesMax)
		left := h.reads(abandoned, 1) // alone in its group
		leave()
		<-left
		h.answer(2 * fencesMax)
		next := h.reads(t.Context(), 1)
		h.answer(3)
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// All that wait end with the connection.
func TestFenceOfABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		errs := h.reads(t.Context(), fencesMax+3)
		h.close()
		for range fencesMax + 3 {
			if err := <-errs; !errors.Is(err, errBroken) {
				t.Errorf("%v, want %v", err, errBroken)
			}
		}
		if err := h.conn.behind(t.Context(), &h.conn.strict, read(opGetData, "/", nil)); !errors.Is(err, errBroken) {
			t.Errorf("a read after that: %v", err)
		}
	})
}

// A fence that is refused, by a server alone, makes its reads fail.
func TestFenceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		defer h.close()
		errs := h.reads(t.Context(), 1)
		body := packet{}.int32(0).int32(h.got[0][1]).int64(1).int32(-127) // throttled
		body.length()
		if _, err := h.net.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; err == nil {
			t.Error("a read behind a fence that was refused has succeeded")
		}
	})
}
