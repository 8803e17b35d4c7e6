// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/trace"
)

// Blobs and records in one file don't see each other, and a blob that doesn't fit is refused by both readers.
func TestBlobs(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewWriter(&file)
	blobs := []string{"one", "another", "x"}
	for i, text := range blobs {
		w.Wakeup(i%2, 0, 1, float64(i))
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		b := append(trace.AppendBlob(nil), text...)
		trace.EndBlob(b)
		file.Write(b)
	}
	all := file.Bytes()
	each := func(b []byte) (got []string, err error) {
		err = trace.EachBlob(bytes.NewReader(b), int64(len(b)), func(at int64, n int) error {
			got = append(got, string(b[at:at+int64(n)]))
			return nil
		})
		return got, err
	}
	if got, err := each(all); err != nil || !slices.Equal(got, blobs) {
		t.Errorf("found %q, %v", got, err)
	}
	if got := merged(t, all); len(got) != 3 || got[2].Epoch != 2 {
		t.Errorf("records: %+v", got)
	}
	cut := all[:len(all)-1]
	if _, err := each(cut); !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("a blob that is cut short: %v", err)
	}
	if _, err := trace.NewReader(bytes.NewReader(cut), int64(len(cut))); !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("a blob that is cut short: %v", err)
	}
	for _, size := range []uint32{0, trace.BlobMax + 1, 1 << 31} {
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 1<<30), size)
		if _, err := each(b); !errors.Is(err, trace.ErrCorrupt) {
			t.Errorf("a blob of %d bytes: %v", size, err)
		}
	}
}
