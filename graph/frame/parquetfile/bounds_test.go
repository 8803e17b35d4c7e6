// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
)

// compressed is a file of one column of numbers, of version 1 or 2 of pages.
func compressed(t *testing.T, codec compress.Codec, version int) []byte {
	t.Helper()
	type row struct {
		X int64 `parquet:"x"`
	}
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]row, 5000)
	for i := range list {
		list[i].X = int64(rng.IntN(1000))
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, list, parquet.Compression(codec), parquet.DataPageVersion(version)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostile is a file whose first page says that it has so many bytes without compression.
func hostile(t *testing.T, file []byte, size int32) []byte {
	t.Helper()
	const at = 7 // behind PAR1, the type of the page, and the tag of the size (format.PageHeader)
	_, n := binary.Varint(file[at:])
	if n <= 0 || file[at-1] != 0x15 {
		t.Fatalf("found %x, want the size of a page", file[:16])
	}
	return append(binary.AppendVarint(bytes.Clone(file[:at]), int64(size)), file[at+n:]...)
}

// TestPages: sizes that a page says, and what its bytes become, are bounded before memory is asked for.
func TestPages(t *testing.T) {
	read := func(file []byte) (err error) {
		r, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return err
		}
		return r.Read([]string{"x"}, func(arrow.RecordBatch) error { return nil })
	}
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Uncompressed} {
		for version := 1; version <= 2; version++ {
			file := compressed(t, codec, version)
			if err := read(file); err != nil {
				t.Fatalf("%v, version %d: %v", codec, version, err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			large, small := read(hostile(t, file, math.MaxInt32)), read(hostile(t, file, 100))
			runtime.ReadMemStats(&after)
			if large == nil || !strings.Contains(large.Error(), "found a page of 2147483647 bytes") {
				t.Errorf("%v, version %d: found %v", codec, version, large)
			}
			if codec != &parquet.Uncompressed && (small == nil || !strings.Contains(small.Error(),
				"becomes more than the 100 bytes")) {
				t.Errorf("%v, version %d: found %v", codec, version, small)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("%v, version %d: %d bytes were asked for", codec, version, n)
			}
		}
	}
	if err := read(compressed(t, &parquet.Lz4Raw, 2)); err == nil ||
		!strings.Contains(err.Error(), `column "x": found it compressed by LZ4_RAW, want snappy, gzip or zstd`) {
		t.Errorf("found %v", err)
	}
}

// TestPage has the other bounds of one page.
func TestPage(t *testing.T) {
	r := &Reader{in: bytes.NewReader(make([]byte, 100)), size: 100}
	for _, c := range []struct {
		change func(*format.PageHeader)
		want   string
	}{
		{func(*format.PageHeader) {}, ""},
		{func(h *format.PageHeader) { h.CompressedPageSize = 51 }, "found a page of 51 bytes, want at most 50"},
		{func(h *format.PageHeader) { h.CompressedPageSize = -1 }, "found a page of -1 bytes"},
		{func(h *format.PageHeader) { h.UncompressedPageSize = -1 }, "found a page of -1 bytes, compressed 50"},
		{func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumValues = pageValuesMax }, ""},
		{func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumValues++ }, "found a page of 16777217 values"},
		{func(h *format.PageHeader) { h.DataPageHeader.V.NumValues = math.MaxInt32 },
			"found a page of 2147483647 values"},
		{func(h *format.PageHeader) { h.DictionaryPageHeader.V.NumValues = 1 << 30 },
			"found a page of 1073741824 values"},
		{func(h *format.PageHeader) { h.DataPageHeaderV2.V.DefinitionLevelsByteLength = 51 },
			"found 51 bytes of levels"},
		{func(h *format.PageHeader) { h.DataPageHeaderV2.V.RepetitionLevelsByteLength = -1 },
			"found -1 bytes of levels"},
	} {
		h := &format.PageHeader{CompressedPageSize: 50, UncompressedPageSize: 60}
		h.DataPageHeaderV2.Valid, h.DataPageHeaderV2.V.NumValues = true, pageValuesMax
		c.change(h)
		err := r.checkPage(format.Uncompressed, h, 50, 100)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
	}
}
