// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"fmt"
	"os"
	"structs"

	"github.com/disco-sim/disco/internal/printable"
)

// The layout of a segment's start, version 1. This file is its descriptor:
// offsets, sizes, writing and checking, nothing else.
//
//	offset size
//	   0     8   magic, the bytes "discoseg"
//	   8     4   version, stored last
//	  12     4   kind
//	  16     8   byte-order mark
//	  24     8   bytes of the whole segment, header page included
//	  32     8   offset of the body: a multiple of the page size, or 128
//	  40     8   bytes of the body
//	  48     8   creation id
//	  56     4   pages that its creator got
//	  60     4   zero
//	  64    64   name, padded with zeros
//	 128         zeros up to the body
//
// docs/format/segment.md has the same for readers of other languages.
const (
	HeaderBytes    = 128 // bytes in use at the start of every segment
	HeaderVersion  = 1   // the only layout version that this build reads and writes
	NameBytesMax   = 64  // longest name of a segment, bytes
	BytesMax       = 1 << 40
	byteOrderMark  = 0x0102030405060708
	offsetMagic    = 0
	offsetVersion  = 8
	offsetKind     = 12
	offsetOrder    = 16
	offsetTotal    = 24
	offsetBody     = 32
	offsetBodySize = 40
	offsetID       = 48
	offsetPages    = 56
	offsetReserved = 60
	offsetName     = 64
)

// headerMagic opens every segment.
const headerMagic = "discoseg"

// headerLayout mirrors the drawing above, so that the compiler pins it
// (layout_unsafe.go). Nothing reads or writes memory through it.
type headerLayout struct {
	_          structs.HostLayout
	magic      [8]byte
	version    uint32
	kind       uint32
	order      uint64
	totalBytes uint64
	bodyOffset uint64
	bodyBytes  uint64
	id         uint64
	pages      uint32
	reserved   uint32
	name       [NameBytesMax]byte
}

// header is the header of a segment, copied to private memory: loaded once, never
// read again from where a peer could change it.
type header struct {
	kind       Kind
	totalBytes int
	bodyOffset int
	bodyBytes  int
	id         uint64
	pages      Pages
	name       string
}

// encode writes everything but the version word into raw, which is zeroed. The
// version goes in last, by an atomic store (Segment.publish).
func (h *header) encode(raw []byte) {
	copy(raw[offsetMagic:], headerMagic)
	binary.LittleEndian.PutUint32(raw[offsetKind:], uint32(h.kind))
	binary.LittleEndian.PutUint64(raw[offsetOrder:], byteOrderMark)
	binary.LittleEndian.PutUint64(raw[offsetTotal:], uint64(h.totalBytes))
	binary.LittleEndian.PutUint64(raw[offsetBody:], uint64(h.bodyOffset))
	binary.LittleEndian.PutUint64(raw[offsetBodySize:], uint64(h.bodyBytes))
	binary.LittleEndian.PutUint64(raw[offsetID:], h.id)
	binary.LittleEndian.PutUint32(raw[offsetPages:], uint32(h.pages))
	copy(raw[offsetName:HeaderBytes], h.name)
}

// parseHeader checks the first HeaderBytes of a file of fileBytes against itself,
// against the file and against what the caller expects. Every word is checked: the
// result is safe to map and to slice by.
func parseHeader(raw []byte, fileBytes int64, want Want) (header, error) {
	name := printable.ASCII(raw[offsetName:HeaderBytes])
	if err := checkForm(raw, name); err != nil {
		return header{}, err
	}
	h := header{
		kind:  Kind(binary.LittleEndian.Uint32(raw[offsetKind:])),
		id:    binary.LittleEndian.Uint64(raw[offsetID:]),
		pages: Pages(binary.LittleEndian.Uint32(raw[offsetPages:])),
		name:  name,
	}
	if h.pages >= PagesHeap {
		h.pages = pagesUnknown // for display only; a file is never heap memory
	}
	if h.kind != want.Kind {
		return header{}, fmt.Errorf("%w: segment %q is of kind %v, want %v: the files were handed over in another "+
			"order than agreed", ErrKind, name, h.kind, want.Kind)
	}
	if want.ID != 0 && h.id != want.ID {
		return header{}, fmt.Errorf("%w: segment %q has creation id %#x, want %#x: it belongs to another run",
			ErrIdentity, name, h.id, want.ID)
	}
	if err := h.parseSizes(raw, fileBytes, want); err != nil {
		return header{}, err
	}
	return h, nil
}

// checkForm checks the words on which the reading of the others depends.
func checkForm(raw []byte, name string) error {
	if found := raw[offsetMagic : offsetMagic+len(headerMagic)]; string(found) != headerMagic {
		return fmt.Errorf("%w: the file starts with %q, want %q: hand over a file from shm.Create", ErrMagic, found,
			headerMagic)
	}
	if mark := binary.LittleEndian.Uint64(raw[offsetOrder:]); mark != byteOrderMark {
		return fmt.Errorf("%w: segment %q has the mark %#x, want %#x: a segment can't be carried to another machine",
			ErrByteOrder, name, mark, uint64(byteOrderMark))
	}
	switch version := binary.LittleEndian.Uint32(raw[offsetVersion:]); version {
	case HeaderVersion:
		return nil
	case 0:
		return fmt.Errorf("%w: segment %q has version 0, so its creator has not finished it: hand it over only after "+
			"shm.Create has returned", ErrVersion, name)
	default:
		return fmt.Errorf("%w: segment %q has version %d, this build reads %d: start all processes of a run from the "+
			"same build", ErrVersion, name, version, HeaderVersion)
	}
}

// parseSizes reads the three sizes and checks each against the file's own.
func (h *header) parseSizes(raw []byte, fileBytes int64, want Want) error {
	total := binary.LittleEndian.Uint64(raw[offsetTotal:])
	offset := binary.LittleEndian.Uint64(raw[offsetBody:])
	size := binary.LittleEndian.Uint64(raw[offsetBodySize:])
	page := uint64(os.Getpagesize())
	if fileBytes <= 0 || fileBytes > BytesMax || total != uint64(fileBytes) {
		return fmt.Errorf("%w: segment %q claims %d bytes, its file has %d, at most %d are allowed: the file is cut "+
			"or foreign", ErrSize, h.name, total, fileBytes, uint64(BytesMax))
	}
	if offset != HeaderBytes && (offset < HeaderBytes || offset%page != 0) || offset > total || size == 0 ||
		size > total-offset {
		return fmt.Errorf("%w: segment %q puts %d bytes of body at offset %d of %d, want them inside, on a page of %d "+
			"bytes or at %d", ErrSize, h.name, size, offset, total, page, HeaderBytes)
	}
	if want.Size != 0 && size != uint64(want.Size) {
		return fmt.Errorf(
			"%w: segment %q has %d bytes of body, want exactly %d: both sides must have the same settings", ErrSize,
			h.name, size, want.Size)
	}
	if want.SizeMax != 0 && size > uint64(want.SizeMax) {
		return fmt.Errorf("%w: segment %q has %d bytes of body, at most %d are allowed here: raise the limit or "+
			"lower the creator's setting", ErrSize, h.name, size, want.SizeMax)
	}
	h.totalBytes, h.bodyOffset, h.bodyBytes = int(total), int(offset), int(size)
	return nil
}
