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
	// ID of the creation (Segment.ID), when it came along by a trusted way; 0
	// takes any.
	ID uint64
	// ReadOnly maps the memory so that this process can't write it.
	ReadOnly bool
	// NoPopulate as in Config.
	NoPopulate bool
}

// Attach maps the segment whose memfd is f. Seals, size and header are checked
// before anything is mapped; a file that isn't what the caller wants is refused
// with ErrSeals, ErrSize, ErrMagic, ErrByteOrder, ErrVersion, ErrKind or
// ErrIdentity.
//
// f is only borrowed: the mapping lives on without it, so the caller closes f
// when it likes, in any case. The segment belongs to the caller, who must Close
// it.
func Attach(f *os.File, want Want) (*Segment, error) { return attach(f, want, &linux) }

func attach(f *os.File, want Want, sys *system) (*Segment, error) {
	defer runtime.KeepAlive(f)
	if want.Kind == 0 || want.Size < 0 || want.SizeMax < 0 {
		return nil, fmt.Errorf("shm: attaching %q: kind %v, size %d and size limit %d are no wish: set Want.Kind, and sizes >= 0", f.Name(), want.Kind, want.Size, want.SizeMax)
	}
	head, err := inspect(f, want, sys)
	if err != nil {
		return nil, fmt.Errorf("shm: attaching %q: %w", f.Name(), err)
	}
	mem, err := sys.mmap(int(f.Fd()), head.totalBytes, mapping{
		writable: !want.ReadOnly,
		populate: !want.NoPopulate,
		huge:     head.pages == PagesTransparent,
	})
	if err != nil {
		return nil, fmt.Errorf("shm: attaching %q: mmap of %d bytes: %w", f.Name(), head.totalBytes, err)
	}
	return &Segment{sys: sys, head: head, readOnly: want.ReadOnly, mem: mem}, nil
}

// inspect checks the file without mapping it. The seals come first: once they are
// seen, neither they nor the size can change any more.
func inspect(f *os.File, want Want, sys *system) (header, error) {
	fd := int(f.Fd())
	found, err := sys.getSeals(fd)
	if errors.Is(err, unix.EINVAL) {
		return header{}, fmt.Errorf("%w: the file can't be sealed, so it is no memfd: hand over a file from shm.Create", ErrSeals)
	}
	if err != nil {
		return header{}, fmt.Errorf("reading its seals: %w", err)
	}
	if found&seals != seals {
		return header{}, fmt.Errorf("%w: found %#x, want at least %#x (shrink, grow and seal): a peer could cut the file under the mapping", ErrSeals, found, seals)
	}
	size, err := sys.fileBytes(fd)
	if err != nil {
		return header{}, fmt.Errorf("reading its size: %w", err)
	}
	if size < HeaderBytes {
		return header{}, fmt.Errorf("%w: the file has %d bytes, want at least the %d of the header", ErrSize, size, HeaderBytes)
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
