// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Want is what the caller of Attach expects; everything else is refused.
type Want struct {
	// Kind of the segment. Not zero.
	Kind Kind
	// Size of the body in bytes; 0 takes any up to SizeMax.
	Size int
	// SizeMax bounds the body, bytes; 0 leaves only BytesMax. A peer that names a
	// huge size costs address space, not memory.
	SizeMax int
	// ID of the creation (Segment.ID), if the caller has it from a trusted source; 0
	// accepts any.
	ID uint64
	// ReadOnly maps the memory so that this process can't write it: a stray write ends
	// the process that does it, and harms no other.
	ReadOnly bool

	// WritableBytes at the start of the body can be written all the same, rounded up to
	// whole pages. With ReadOnly only; not for reserved huge pages.
	WritableBytes int
	// NoPopulate as in Config.
	NoPopulate bool
	// Partial accepts a segment whose creator has taken only a part of its memory (Config.TakeBytes). A page
	// without memory is read as zeros, and reading it takes the memory. Who attaches for writing can call
	// Segment.Take.
	Partial bool
}

// Attach maps the segment whose memfd is f. Seals, size and header are checked
// before anything is mapped; a file that isn't what the caller expects is refused
// with ErrSeals, ErrSize, ErrSparse, ErrMagic, ErrByteOrder, ErrVersion, ErrKind or
// ErrIdentity.
//
// f stays the caller's, who closes it at any time after this call: the mapping doesn't need it.
// The segment belongs to the caller too, and must be closed.
func Attach(f *os.File, want Want) (*Segment, error) { return attach(f, want, &linux) }

func attach(f *os.File, want Want, sys *system) (*Segment, error) {
	defer runtime.KeepAlive(f)
	if want.Kind == 0 || want.Size < 0 || want.SizeMax < 0 || want.WritableBytes < 0 || want.WritableBytes > 0 &&
		!want.ReadOnly {
		return nil, fmt.Errorf("shm: attaching %q: kind %v, size %d, size limit %d and %d writable bytes make no "+
			"valid Want: set Want.Kind, sizes >= 0, and ReadOnly with WritableBytes", f.Name(), want.Kind, want.Size,
			want.SizeMax, want.WritableBytes)
	}
	head, err := inspect(f, want, sys)
	if err != nil {
		return nil, fmt.Errorf("shm: attaching %q: %w", f.Name(), err)
	}
	mem, err := sys.mmap(int(f.Fd()), head.totalBytes, mapping{
		writable: !want.ReadOnly,
		populate: !want.NoPopulate && !want.Partial,
		huge:     head.pages == PagesTransparent,
	})
	if err != nil {
		return nil, fmt.Errorf("shm: attaching %q: mmap of %d bytes: %w%s", f.Name(), head.totalBytes, err, Advice(err))
	}
	s := &Segment{sys: sys, head: head, readOnly: want.ReadOnly, mem: mem}
	err = s.openForWriting(want.WritableBytes)
	if err == nil && want.Partial && !want.ReadOnly {
		s.file, err = sys.duplicate(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shm: attaching %q: %w", f.Name(), err), s.Close())
	}
	return s, nil
}

// openForWriting makes the first n bytes of a read-only body writable.
func (s *Segment) openForWriting(n int) error {
	if n == 0 {
		return nil
	}
	page := os.Getpagesize()
	if s.head.pages == PagesHuge {
		page = hugePageBytes
	}
	from, to := s.head.bodyOffset, s.head.bodyOffset+roundUp(n, page)
	if n > s.head.bodyBytes || from%page != 0 || to > len(s.mem) {
		return fmt.Errorf("%w: %d writable bytes in a body of %d at offset %d, want pages of %d", ErrSize, n,
			s.head.bodyBytes, from, page)
	}
	if err := s.sys.protect(s.mem[from:to]); err != nil {
		return fmt.Errorf("mprotect of %d bytes: %w%s", to-from, err, Advice(err))
	}
	return nil
}

// inspect checks the file without mapping it. The seals come first: once they are
// seen, neither they nor the size can change any more.
func inspect(f *os.File, want Want, sys *system) (header, error) {
	fd := int(f.Fd())
	found, err := sys.getSeals(fd)
	if errors.Is(err, unix.EINVAL) {
		return header{}, fmt.Errorf("%w: the file can't be sealed, so it is no memfd: hand over a file from shm.Create",
			ErrSeals)
	}
	if err != nil {
		return header{}, fmt.Errorf("reading its seals: %w%s", err, Advice(err))
	}
	if found&seals != seals {
		return header{}, fmt.Errorf("%w: found %#x, want at least %#x (shrink, grow and seal): a peer could cut the "+
			"file under the mapping", ErrSeals, found, seals)
	}
	size, reserved, err := sys.fileBytes(fd)
	if err != nil {
		return header{}, fmt.Errorf("reading its size: %w", err)
	}
	if size < HeaderBytes {
		return header{}, fmt.Errorf("%w: the file has %d bytes, want at least the %d of the header", ErrSize, size,
			HeaderBytes)
	}
	if reserved < size && !want.Partial {
		return header{}, fmt.Errorf("%w: %d of %d bytes have memory behind them: its creator must take all of it, as "+
			"shm.Create does, unless Want.Partial allows less", ErrSparse, reserved, size)
	}
	// SYNC POINT segment-published: the creator stored the version after the rest
	// of the header, and handed the file over after that.
	var raw [HeaderBytes]byte
	n, err := sys.pread(fd, raw[:], 0)
	if err != nil {
		return header{}, fmt.Errorf("reading its header: %w", err)
	}
	if n != HeaderBytes {
		return header{}, fmt.Errorf("%w: read %d bytes of its header, want %d", ErrSize, n, HeaderBytes)
	}
	return parseHeader(raw[:], size, want)
}
