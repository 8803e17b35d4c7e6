// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
)

// Every field of a report is decoded as it was encoded.
func TestReportIsSentWhole(t *testing.T) {
	want := &nodeReport{}
	wiretest.Fill(t, want)
	b, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeReport(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// Whatever a report's bytes are, decoding them is an error or gives the report that is encoded
// so.
func FuzzDecodePart(f *testing.F) {
	p := &nodeReport{}
	wiretest.Fill(f, p)
	b, err := p.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := decodeReport(in)
		if err != nil {
			return
		}
		if out, err := p.encode(); err != nil || !bytes.Equal(out, in) {
			t.Fatalf("%x is decoded, and encoded as %x (%v)", in, out, err)
		}
	})
}
