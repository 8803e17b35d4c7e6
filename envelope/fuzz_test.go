// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"
)

// Whatever the bytes are: no panic, nothing outside them, and what is accepted
// encodes to the same bytes again, so that every envelope has exactly one form.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(encodeEvent(someEvent()))
	f.Add(encodeEvent(Event{}))
	f.Add(encodeEvent(Event{InBlock: true, Block: BlockRef{Block: 1, Length: DataMax, Seq: 3}}))
	f.Add(encodeEvent(Event{Parts: DataMax}))
	f.Add(encodePromise(Promise{Epoch: 1}))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xFF}, 64))
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		e, err := DecodeEvent(src)
		if !bytes.Equal(src, before) {
			t.Fatal("decoding changed its source")
		}
		var inline Event
		if inline.DecodeInline(src) != (err == nil && !e.InBlock && e.Parts == 0) {
			t.Fatalf("%x: DecodeInline disagrees with Decode, which says %v, %v", src, &e, err)
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if !(e.Epoch >= 0) || math.IsInf(e.Epoch, 0) || len(e.Headers) > HeadersMax || len(e.Data) > DataMax ||
			e.Block.Length > DataMax || e.Parts > DataMax {
			t.Fatalf("accepted %v with %d header bytes", &e, len(e.Headers))
		}
		if (e.InBlock || e.Parts != 0) && len(e.Data) != 0 || e.InBlock && e.Parts != 0 {
			t.Fatalf("accepted %v with a block and %d data bytes", &e, len(e.Data))
		}
		if again := encodeEvent(e); !bytes.Equal(again, src) {
			t.Fatalf("accepted %x, but it encodes to %x", src, again)
		}
		if !e.InBlock && e.Parts == 0 {
			if !reflect.DeepEqual(inline, e) {
				t.Fatalf("DecodeInline gives %#v, Decode %#v", inline, e)
			}
			again := make([]byte, len(src))
			if inline.EncodeInline(again); !bytes.Equal(again, src) {
				t.Fatalf("EncodeInline gives %x, want %x", again, src)
			}
			w0, w1, w2, w3 := e.Words()
			var words []byte
			for _, w := range []uint64{w0, w1, w2, w3} {
				words = binary.LittleEndian.AppendUint64(words, w)
			}
			if !bytes.Equal(words, src[:EventHeaderBytes]) {
				t.Fatalf("Words are %x, want %x", words, src[:EventHeaderBytes])
			}
		}
		_ = CheckHeaders(e.Headers)
		_, _ = Header(e.Headers, "k")
	})
}

func FuzzDecodePart(f *testing.F) {
	part := make([]byte, PartHeaderBytes+3)
	EncodePart(part, 5, []byte("abc"))
	f.Add(part)
	f.Add(part[:PartHeaderBytes])
	f.Add(encodePromise(Promise{Epoch: 1}))
	f.Fuzz(func(t *testing.T, src []byte) {
		offset, data, err := DecodePart(src)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if len(data) == 0 || int(offset)+len(data) > DataMax {
			t.Fatalf("accepted %d bytes at offset %d", len(data), offset)
		}
		again := make([]byte, PartHeaderBytes+len(data))
		if EncodePart(again, offset, data); !bytes.Equal(again, src) {
			t.Fatalf("accepted %x, but it encodes to %x", src, again)
		}
	})
}

func FuzzDecodePromise(f *testing.F) {
	f.Add(encodePromise(Promise{Epoch: 1, Seqnr: 2, NumEvents: 3, Level: 4, Target: 5, Sender: 6}))
	f.Add(encodePromise(Promise{Epoch: math.Inf(1), Target: WholeLane, Sender: WholeLane}))
	f.Add(encodeEvent(Event{Data: make([]byte, 8)}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := DecodePromise(src)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if !(p.Epoch >= 0) {
			t.Fatalf("accepted epoch %v", p.Epoch)
		}
		if again := encodePromise(p); !bytes.Equal(again, src) {
			t.Fatalf("accepted %x, but it encodes to %x", src, again)
		}
	})
}

// Headers are accepted only in their one form as well.
func FuzzHeaders(f *testing.F) {
	good, _ := EncodeHeaders(map[string]string{"a": "1", "b": "22"})
	f.Add(good)
	f.Add([]byte{0xFF, 0xFF, 0, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > HeadersMax {
			return
		}
		all := map[string]string{}
		for rest := src; len(rest) > 0; {
			k, v, next, err := nextHeader(rest)
			if err != nil {
				break
			}
			all[string(k)], rest = string(v), next
		}
		if err := CheckHeaders(src); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if again, err := EncodeHeaders(all); err != nil || !bytes.Equal(again, src) {
			t.Fatalf("accepted %x, but it encodes to %x, %v", src, again, err)
		}
	})
}
