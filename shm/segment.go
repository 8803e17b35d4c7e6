// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// Kind identifies the contents of a segment. The package that formats a body chooses its kind; four printable
// characters, first one in the lowest byte, make good ones. Zero is no kind.
type Kind uint32

// KindPool is the kind of a segment whose body FormatPool has formatted.
const KindPool Kind = 'p' | 'o'<<8 | 'o'<<16 | 'l'<<24

// String shows the four characters if they are printable, else the number.
func (k Kind) String() string {
	b := []byte{byte(k), byte(k >> 8), byte(k >> 16), byte(k >> 24)}
	for _, c := range b {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%#x", uint32(k))
		}
	}
	return fmt.Sprintf("%q", b)
}

// Pages says what a segment's memory consists of.
type Pages uint32

// What Segment.Pages reports.
const (
	PagesSmall       Pages = iota // the machine's ordinary pages
	PagesTransparent              // ordinary memory that the kernel has put together into 2 MiB pages
	PagesHuge                     // 2 MiB pages from the machine's reserve (vm.nr_hugepages)
	PagesHeap                     // the Go heap: not shared with other processes
	pagesUnknown                  // a peer's word that means nothing
)

// String says it in words.
func (p Pages) String() string {
	switch p {
	case PagesSmall:
		return "small pages"
	case PagesTransparent:
		return "transparent huge pages"
	case PagesHuge:
		return "reserved huge pages"
	case PagesHeap:
		return "heap"
	}
	return "unknown pages"
}

// Segment is one piece of memory with a header in front: a mapping of a
// sealed memfd, or page-aligned heap memory with the same layout. It is the one
// owner of everything that Create and Attach acquire, and Close gives all of it
// back. There is no finalizer: a segment that isn't closed stays mapped until the
// process ends.
//
// Any goroutine may call its methods. Close must not overlap with any use of the
// memory: slices of Body, doorbells, pools and views in it are dead afterwards,
// and touching them ends the process with a fault.
type Segment struct {
	sys      *system // immutable
	head     header  // immutable once Create, Attach or Heap has returned
	readOnly bool    // immutable, likewise

	mu   sync.Mutex // guards the fields below
	mem  []byte     // the whole mapping; nil before it is made and after Close or Unmap
	file *os.File   // nil for heap segments, for attached ones that can't Take, and after Close
}

// Body is the memory after the header: page aligned unless Config.Packed says otherwise, as long as Config.Size
// said, and zero in a new segment. It is the same memory at every call, valid
// until Close or Unmap, and nil after it. Writing into the body of a segment that was
// attached with Want.ReadOnly ends the process with a fault, but for WritableBytes.
func (s *Segment) Body() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	end := s.head.bodyOffset + s.head.bodyBytes
	return s.mem[s.head.bodyOffset:end:end]
}

// File is the memfd of a created segment, to be handed to another process. It
// belongs to the segment: the caller must not close it. It is nil for an attached
// segment, which keeps the mapping only (but with Want.Partial, for Take), for a heap segment, and after Close.
func (s *Segment) File() *os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}

// Kind is what the segment was created for.
func (s *Segment) Kind() Kind { return s.head.kind }

// Name is the name that its creator gave it: for display only.
func (s *Segment) Name() string { return s.head.name }

// Size is the number of bytes in Body.
func (s *Segment) Size() int { return s.head.bodyBytes }

// ID is the random number of this creation; a segment of the same kind and name
// from another run has another one.
func (s *Segment) ID() uint64 { return s.head.id }

// Pages reports which pages its creator got.
func (s *Segment) Pages() Pages { return s.head.pages }

// ReadOnly reports whether the body may only be read, beyond Want.WritableBytes.
func (s *Segment) ReadOnly() bool { return s.readOnly }

// Unmap unmaps the memory and keeps the file, from which others may still Attach: for who only hands a segment on. Like
// Close it must not overlap with any use of the memory. Without a file it does nothing: the memory is all there is.
func (s *Segment) Unmap() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.unmap()
}

// unmap ends the mapping, if there is one. The caller holds mu.
func (s *Segment) unmap() error {
	mem := s.mem
	s.mem = nil
	if mem == nil || s.head.pages == PagesHeap {
		return nil
	}
	if err := s.sys.munmap(mem); err != nil {
		return fmt.Errorf("shm: segment %q: unmapping %d bytes: %w", s.head.name, len(mem), err)
	}
	return nil
}

// Close unmaps the memory and closes the file. Only the first call does anything;
// every further one returns nil. An error means that the machine refused to take
// something back; the segment is closed all the same.
func (s *Segment) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.file
	s.file = nil
	unmapped, closed := s.unmap(), error(nil)
	if file != nil {
		if err := s.sys.close(file); err != nil {
			closed = fmt.Errorf("shm: segment %q: closing its file: %w", s.head.name, err)
		}
	}
	return errors.Join(unmapped, closed)
}

// publish writes the header. No other process has the memory yet; the version goes in last all the same, so that a
// header without one is visibly unfinished.
func (s *Segment) publish() {
	s.head.encode(s.mem[:HeaderBytes])
	// SYNC POINT segment-published: this store comes after every other word of the
	// header. Attach reads the version from the file with the rest and refuses 0.
	wordAt32(s.mem, offsetVersion).Store(HeaderVersion)
}

// Heap makes a segment of ordinary heap memory with the same layout: for workers
// that are goroutines of one process, and for tests, because the race detector
// sees the heap and doesn't see mapped memory. HugePages, NoPopulate and TakeBytes are
// ignored. Errors are those of a wrong Config.
func Heap(cfg Config) (*Segment, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	total := roundUp(cfg.bodyOffset()+cfg.Size, page)
	s := &Segment{sys: &linux, head: cfg.header(total, PagesHeap), mem: alignedBytes(total, page)}
	s.publish()
	return s, nil
}

// roundUp gives the least multiple of unit, a power of two, that is at least n.
func roundUp(n, unit int) int { return (n + unit - 1) &^ (unit - 1) }
