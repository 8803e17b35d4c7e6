// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// The bytes of docs/format/envelope.md, written out by hand. Whoever changes the
// format changes this file and that page in the same commit.
func TestFormat(t *testing.T) {
	event := Event{Epoch: 1.5, Number: 0x0102030405060708, Target: 0x11121314, Sender: 0x21222324,
		Headers: []byte{0xAA, 0xBB, 0xCC}, Data: []byte{0xD0, 0xD1}}
	block := Event{Epoch: 1.5, Number: 1, Target: 2, Sender: 3, InBlock: true,
		Block: BlockRef{Block: 0x31323334, Length: 0x0A0B0C0D, Seq: 0x4142434445464748}}
	inParts := Event{Epoch: 1.5, Number: 1, Target: 2, Sender: 3, Parts: 0x0A0B0C0D}
	part := make([]byte, PartHeaderBytes+3)
	EncodePart(part, 0x31323334, []byte{0xD0, 0xD1, 0xD2})
	promise := Promise{Epoch: math.Inf(1), Seqnr: 0x5152535455565758, NumEvents: 0x6162636465666768, Level: 0x71727374,
		Target: WholeLane, Sender: 0x81828384}
	headers, err := EncodeHeaders(map[string]string{"k": "vw", "a": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"event", encodeEvent(event), `
			01 00 0300 02000000
			000000000000f83f
			0807060504030201
			14131211 24232221
			aabbcc d0d1`},
		{"event with a block", encodeEvent(block), `
			01 01 0000 10000000
			000000000000f83f
			0100000000000000
			02000000 03000000
			34333231 0d0c0b0a
			4847464544434241`},
		{"event with data in parts", encodeEvent(inParts), `
			01 02 0000 08000000
			000000000000f83f
			0100000000000000
			02000000 03000000
			0d0c0b0a 00000000`},
		{"part", part, `
			03 000000 34333231
			d0d1d2`},
		{"promise", encodePromise(promise), `
			02 000000 74737271
			000000000000f07f
			5857565554535251
			6867666564636261
			ffffffff 84838281`},
		{"headers", headers, `
			0100 0000 61
			0100 0200 6b 7677`},
	} {
		want, err := hex.DecodeString(strings.Join(strings.Fields(c.want), ""))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.got, want) {
			t.Errorf("%s:\n got %x\nwant %x", c.what, c.got, want)
		}
	}
}
