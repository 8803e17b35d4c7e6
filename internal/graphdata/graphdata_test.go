// SPDX-License-Identifier: Apache-2.0

package graphdata

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// some is an answer with columns of each kind, with values that are missing.
func some() *Data {
	texts, ints, floats := Values{}, Values{Kind: Int}, Values{Kind: Float}
	texts.AddText("a")
	texts.AddNone()
	texts.AddText("")
	ints.AddInt(-7)
	ints.AddInt(1 << 60)
	ints.AddNone()
	floats.AddFloat(0.1)
	floats.AddNone()
	floats.AddFloat(-1e300)
	d := &Data{Asked: []byte("asked"), Fills: []Rows{{Len: 3, First: []uint32{0, 0, 5}, Second: []uint32{1, 2, 0},
		Columns: []Values{texts, ints, floats}}, {First: []uint32{}, Second: []uint32{}, Columns: []Values{}}}}
	d.Together.Names.AddText("n")
	d.Together.Groups = []uint32{3}
	return d
}

func written(t testing.TB, d *Data) []byte {
	t.Helper()
	b, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRoundTrip: what was written is read again, value by value, and the same data have the same bytes.
func TestRoundTrip(t *testing.T) {
	b := written(t, some())
	d, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	if again := written(t, d); !bytes.Equal(b, again) || Digest(b) != Digest(again) || len(Digest(b)) != 64 {
		t.Errorf("%d bytes became %d", len(b), len(again))
	}
	c := d.Fills[0].Columns
	if !c[0].Has(0) || c[0].Text(0) != "a" || c[0].Has(1) || !c[0].Has(2) || c[0].Text(2) != "" || c[1].Int(0) != -7 ||
		c[1].Int(1) != 1<<60 || c[1].Has(2) || c[2].Float(0) != 0.1 || c[2].Has(1) || c[2].Float(2) != -1e300 {
		t.Errorf("%+v", c)
	}
	if d.Together.Names.Text(0) != "n" || d.Fills[0].First[2] != 5 || d.Fills[0].Second[1] != 2 {
		t.Errorf("%+v", d)
	}
	turned := c[0].In([]int{2, 1, 0})
	if turned.Text(2) != "a" || turned.Has(1) || !turned.Has(0) || c[1].Compare(0, 1) >= 0 || c[1].Compare(2, 0) >= 0 ||
		c[2].Compare(0, 2) <= 0 || c[0].Compare(0, 2) <= 0 || c[0].Compare(1, 1) != 0 {
		t.Errorf("%+v", turned)
	}
}

// TestRequest: a request is read again as it was.
func TestRequest(t *testing.T) {
	r := &Request{Scenario: "base", Distinct: []string{"site"}, Same: []string{"other"}, Together: "region",
		Fills: []Fill{{Of: Edges, Layer: 2, Vertices: []Choice{{"kind", []string{"a", "b"}}},
			Targets: []Choice{{"kind", []string{"c"}}},
			Table:   Table{"s", "t"}, Columns: []Column{{"column", "x"}}}}}
	b, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := OpenRequest(b); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v %v, want %+v", got, err, r)
	}
	if _, err := OpenRequest(b[:len(b)-1]); err == nil {
		t.Error("a request that is cut short was taken")
	}
}

// TestBad: an answer that is cut short, or whose parts don't fit together, is refused with what is wrong.
func TestBad(t *testing.T) {
	good := written(t, some())
	for n := range good {
		if _, err := Open(good[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken", n, len(good))
		}
	}
	for want, spoil := range map[string]func(d *Data){
		"3 rows with 2":        func(d *Data) { d.Fills[0].First = []uint32{0, 0} },
		"a column of 2":        func(d *Data) { d.Fills[0].Columns[0] = d.Fills[0].Columns[0].In([]int{0, 1}) },
		"vertex 0 behind 5":    func(d *Data) { slices.Reverse(d.Fills[0].First) },
		"a column of kind 9":   func(d *Data) { d.Fills[0].Columns[1].Kind = 9 },
		"for a column of 3":    func(d *Data) { d.Fills[0].Columns[1].data = make([]byte, 23) },
		"text that ends at 99": func(d *Data) { d.Fills[0].Columns[0].ends[0] = 99 },
		"bytes of text, want":  func(d *Data) { d.Fills[0].Columns[0].data = make([]byte, 9) },
		"2 groups of 1":        func(d *Data) { d.Together.Groups = []uint32{1, 2} },
	} {
		d := some()
		spoil(d)
		if _, err := Open(written(t, d)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzOpen: any bytes are refused, or are an answer whose values can all be had, and that is written as it was.
func FuzzOpen(f *testing.F) {
	f.Add(written(f, some()))
	f.Add(written(f, &Data{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Open(b)
		if err != nil {
			return
		}
		for _, rows := range d.Fills {
			for _, v := range rows.Columns {
				v.In(slices.Collect(func(yield func(int) bool) {
					for i := range v.Len() {
						if !yield(i) {
							return
						}
					}
				}))
			}
		}
		if again := written(t, d); len(again) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
	})
}
