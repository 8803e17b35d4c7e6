// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page. Writers make pages of 1 MiB, or of a group of rows, which has a million rows or so.
const (
	pageBytesMax  = 256 << 20
	pageValuesMax = 1 << 24
	headerMax     = 64 << 10
)

// checkPages looks at all pages of a column in a group of rows before any of them is decoded: the library asks for as
// much memory as their headers say, and takes as much as compressed bytes become.
func (r *Reader) checkPages(c *format.ColumnMetaData) error {
	switch c.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
	default:
		return fmt.Errorf("found it compressed by %v, want snappy, gzip or zstd", c.Codec)
	}
	at := c.DataPageOffset
	if c.DictionaryPageOffset != 0 {
		at = c.DictionaryPageOffset
	}
	end := at + c.TotalCompressedSize
	if at < 0 || c.TotalCompressedSize < 0 || end > r.size || end < at {
		return fmt.Errorf("found %d bytes from %d on, want them in the file, which has %d", c.TotalCompressedSize, at,
			r.size)
	}
	window := make([]byte, headerMax)
	for at < end {
		n, err := r.in.ReadAt(window[:min(headerMax, end-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var h format.PageHeader
		in := (&thrift.CompactProtocol{}).NewReaderFromBytes(window[:n])
		if err := thrift.NewDecoder(in).Decode(&h); err != nil {
			return fmt.Errorf("byte %d: the header of a page: %w", at, err)
		}
		at += int64(in.BytesRead())
		if err := r.checkPage(c.Codec, &h, at, end); err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		at += int64(h.CompressedPageSize)
	}
	return nil
}

// checkPage looks at the page whose bytes begin at a place, in a column that ends at another.
func (r *Reader) checkPage(codec format.CompressionCodec, h *format.PageHeader, at, end int64) error {
	values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
	switch {
	case h.CompressedPageSize > pageBytesMax || h.UncompressedPageSize < 0 || h.UncompressedPageSize > pageBytesMax:
		return fmt.Errorf("found a page of %d bytes, compressed %d, want at most %d: write smaller pages",
			h.UncompressedPageSize, h.CompressedPageSize, pageBytesMax)
	case h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > end-at:
		return fmt.Errorf("found a page of %d bytes, want at most %d, as the column has", h.CompressedPageSize, end-at)
	case values > pageValuesMax:
		return fmt.Errorf("found a page of %d values, want at most %d: write smaller pages", values, pageValuesMax)
	}
	levels := int64(0) // which aren't compressed
	if v2 := &h.DataPageHeaderV2; v2.Valid {
		levels = int64(v2.V.DefinitionLevelsByteLength) + int64(v2.V.RepetitionLevelsByteLength)
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			codec = format.Uncompressed
		}
	}
	if levels < 0 || levels > int64(h.CompressedPageSize) {
		return fmt.Errorf("found %d bytes of levels in a page of %d", levels, h.CompressedPageSize)
	}
	return checkCompressed(codec, io.NewSectionReader(r.in, at+levels, int64(h.CompressedPageSize)-levels),
		int64(h.UncompressedPageSize))
}

// checkCompressed holds that compressed bytes don't become more than a page says.
func checkCompressed(codec format.CompressionCodec, in *io.SectionReader, most int64) (err error) {
	var size uint64
	switch codec {
	case format.Snappy:
		var first [binary.MaxVarintLen64]byte
		n, err := in.ReadAt(first[:], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		size, _ = binary.Uvarint(first[:n])
	case format.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(in); err == nil {
			size, err = discarded(z, most)
		}
	case format.Zstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(pageBytesMax))
		if err == nil {
			size, err = discarded(z, most)
			z.Close()
		}
	}
	if err == nil && size > uint64(most) {
		err = fmt.Errorf("found a page that becomes more than the %d bytes that its header has: the file is damaged",
			most)
	}
	return err
}

// discarded is how many bytes there are, at most one more than most.
func discarded(in io.Reader, most int64) (uint64, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(in, most+1))
	return uint64(n), err
}
