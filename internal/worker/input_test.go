// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/disco-sim/disco/internal/wire/wiretest"
)

// written is an input all fields of which are set, and the body of its segment.
func written(t testing.TB) (*Input, []byte) {
	t.Helper()
	in := new(Input)
	wiretest.Fill(t, in)
	body := make([]byte, in.Segment().Size)
	if err := in.Write(body); err != nil {
		t.Fatal(err)
	}
	return in, body
}

// Every field of the input travels, in exactly the bytes that its segment has, and files are not copied.
func TestInput(t *testing.T) {
	for _, want := range []*Input{{}, func() *Input { in, _ := written(t); return in }()} {
		body := make([]byte, want.Segment().Size)
		if err := want.Write(body); err != nil {
			t.Fatal(err)
		}
		got, err := ReadInput(body)
		if err != nil {
			t.Fatal(err)
		}
		if want.Text == nil {
			want.Text = []byte{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		for _, file := range got.Attached {
			at := uintptr(unsafe.Pointer(unsafe.SliceData(file.Text))) - uintptr(unsafe.Pointer(&body[0]))
			if at >= uintptr(len(body)) {
				t.Errorf("the file %s is a copy", file.Name)
			}
		}
	}
}

// A body that is too small or too large for the input is refused, and so is one with other bytes in it.
func TestBadInput(t *testing.T) {
	in, body := written(t)
	for _, n := range []int{len(body) - 1, len(body) + 1} {
		if err := in.Write(make([]byte, n)); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("body of %d bytes for %d: %v", n, len(body), err)
		}
	}
	for n := range len(body) {
		if _, err := ReadInput(body[:n]); err == nil || !strings.Contains(err.Error(), "worker: input of") {
			t.Fatalf("%d of %d bytes: %v", n, len(body), err)
		}
	}
	if _, err := ReadInput(append(body, 0)); err == nil {
		t.Error("a byte behind the last field was accepted")
	}
}

func FuzzReadInput(f *testing.F) {
	_, body := written(f)
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := ReadInput(body)
		if err != nil {
			return
		}
		again := make([]byte, in.Segment().Size)
		if err := in.Write(again); err != nil || string(again) != string(body) {
			t.Errorf("%q was read from %q: %v", again, body, err)
		}
	})
}
