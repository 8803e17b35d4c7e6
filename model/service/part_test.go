// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
)

func readReport(b []byte) (*boxReport, error) {
	p := &boxReport{}
	return p, p.decode(b)
}

// Every field of a report is decoded as it was encoded.
func TestReportIsSentWhole(t *testing.T) {
	want := &boxReport{}
	wiretest.Fill(t, want)
	want.Audit = nil // its sums have no exported fields: the checked build compares them
	b, err := want.appendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readReport(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	// … also into the memory of another one, of which nothing stays.
	other := &boxReport{Generator: &generatorReport{Made: 1}}
	if b, err = other.appendTo(nil); err != nil {
		t.Fatal(err)
	}
	if err := got.decode(b); err != nil || got.Server != nil || len(got.Edges)+len(got.Latencies) > 0 ||
		*got.Generator != *other.Generator || got.Received != 0 {
		t.Errorf("%+v, %v; want %+v", got, err, other)
	}
}

// Whatever a report's bytes are, decoding them is an error or gives the report that is encoded
// so.
func FuzzDecodePart(f *testing.F) {
	p := &boxReport{}
	wiretest.Fill(f, p)
	p.Audit = nil // its sums have no exported fields: the checked build compares them
	b, err := p.appendTo(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := readReport(in)
		if err != nil {
			return
		}
		if out, err := p.appendTo(nil); err != nil || p.Audit == nil && !bytes.Equal(out, in) {
			t.Fatalf("%x is decoded, and encoded as %x (%v)", in, out, err)
		}
	})
}
