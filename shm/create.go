// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/internal/printable"
	"golang.org/x/sys/unix"
)

// hugePageBytes is the size of a huge page on both of our architectures.
const hugePageBytes = 2 << 20

// reserveStepBytes is how much memory one fallocate asks for. A signal makes
// fallocate give back the whole of what it has got so far and start over, and a
// Go program gets signals often: 16 MiB take some 5 ms, well under the 10 ms of
// the runtime's own preemption signal.
const reserveStepBytes = 16 << 20

// reserveTriesMax bounds how often one step is started over.
const reserveTriesMax = 1000

// Config says what to create.
type Config struct {
	// Name is shown in /proc/PID/maps, in messages and by inspection; nothing is looked up by it. 1 to NameBytesMax
	// printable ASCII characters, no default.
	Name string
	// Kind is what the body will hold. Not zero, no default.
	Kind Kind
	// Size of the body in bytes, 1 to BytesMax less the header page, no default.
	// The memory is taken at once: a larger one costs memory and, pre-faulted,
	// about 1 ms a MiB at start.
	Size int
	// TakeBytes is how much of the body, from its start, gets its memory at once; the rest is taken by
	// Segment.Take when it is needed, and whoever attaches must say Want.Partial. 0, or HugePages: all of it.
	TakeBytes int
	// HugePages tries 2 MiB pages from the machine's reserve, then asks the kernel
	// to put ordinary ones together, then goes on with small ones; Segment.Pages
	// reports which it became. Fewer misses of the address cache on large pools; the
	// size is rounded up to 2 MiB, so small segments waste memory. Default off.
	HugePages bool
	// NoPopulate leaves the page tables to be filled at the first touch of each
	// page: a faster start, but 1 to 3 µs at every first touch, on the event path.
	// The memory itself is reserved in any case. Default off.
	NoPopulate bool
	// Packed puts the body right behind the header, at HeaderBytes, and not on a page of its own: a page less for each
	// of many small segments. The body then starts at a multiple of 128 bytes only, and can't be attached with
	// Want.WritableBytes. Default off.
	Packed bool
}

// bodyOffset is where the body starts.
func (c *Config) bodyOffset() int {
	if c.Packed {
		return HeaderBytes
	}
	return os.Getpagesize()
}

func (c *Config) validate() error {
	if len(c.Name) == 0 || len(c.Name) > NameBytesMax || printable.ASCII([]byte(c.Name)) != c.Name {
		return fmt.Errorf("shm: segment name %q, want 1 to %d printable ASCII characters", c.Name, NameBytesMax)
	}
	if c.Kind == 0 {
		return fmt.Errorf("shm: segment %q without a kind: set Config.Kind", c.Name)
	}
	if most := BytesMax - 2*hugePageBytes; c.Size <= 0 || c.Size > most {
		return fmt.Errorf("shm: segment %q of %d bytes, want 1 to %d", c.Name, c.Size, most)
	}
	if c.TakeBytes < 0 || c.TakeBytes > c.Size {
		return fmt.Errorf("shm: segment %q takes %d bytes at once, want 0 to its size, %d", c.Name, c.TakeBytes, c.Size)
	}
	return nil
}

// header is what a segment of cfg with total bytes says of itself.
func (c *Config) header(total int, pages Pages) header {
	var id [8]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return header{
		kind:       c.Kind,
		totalBytes: total,
		bodyOffset: c.bodyOffset(),
		bodyBytes:  c.Size,
		id:         binary.LittleEndian.Uint64(id[:]) | 1, // 0 stands for "any" in a Want
		pages:      pages,
		name:       c.Name,
	}
}

// Create makes a segment: a memfd whose memory is reserved and, unless NoPopulate
// says otherwise, mapped page by page before Create returns, and whose size is
// sealed. A machine without the memory for it, or a container whose limit it would
// break, is ErrMemory here and not a killed process or a fault later. The caller
// owns the segment and must Close it.
func Create(cfg Config) (*Segment, error) { return create(cfg, &linux) }

func create(cfg Config, sys *system) (*Segment, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if !cfg.HugePages {
		return build(cfg, PagesSmall, sys)
	}
	if s, err := build(cfg, PagesHuge, sys); err == nil {
		return s, nil
	}
	// Why there are no reserved pages doesn't matter: none configured, too few
	// left, not allowed. The next best kind is always there to try.
	return build(cfg, PagesTransparent, sys)
}

// build takes the steps of creation in order. The segment owns what has been
// acquired from the first step on, so that whatever step fails, Close is the
// whole clean-up.
func build(cfg Config, pages Pages, sys *system) (*Segment, error) {
	unit := os.Getpagesize()
	if pages != PagesSmall {
		unit = hugePageBytes
	}
	total := roundUp(cfg.bodyOffset()+cfg.Size, unit)
	s := &Segment{sys: sys, head: cfg.header(total, pages)}
	taken := total
	if cfg.TakeBytes > 0 && pages == PagesSmall && !cfg.HugePages {
		taken = roundUp(cfg.bodyOffset()+cfg.TakeBytes, unit)
	}
	// Filling the page tables would take the rest of the memory as well.
	if err := s.take(taken, !cfg.NoPopulate && taken == total); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: creating segment %q of %d bytes (%v): %w", cfg.Name, total, pages,
			err), s.Close())
	}
	return s, nil
}

// take acquires file, memory for its first bytes, and mapping, writes the header and seals.
func (s *Segment) take(bytes int, populate bool) error {
	if s.head.pages != PagesHuge { // those are counted apart, and refused in time
		if err := checkAvailable(s.sys, bytes); err != nil {
			return err
		}
	}
	if err := s.openFile(); err != nil {
		return fmt.Errorf("memfd_create: %w%s", err, Advice(err))
	}
	fd := int(s.file.Fd())
	if err := s.sys.ftruncate(fd, int64(s.head.totalBytes)); err != nil {
		return fmt.Errorf("ftruncate: %w%s", err, Advice(err))
	}
	if err := s.reserve(fd, 0, bytes); err != nil {
		return fmt.Errorf("fallocate: %w%s", err, Advice(err))
	}
	mem, err := s.sys.mmap(fd, s.head.totalBytes, mapping{
		writable: true,
		populate: populate,
		huge:     s.head.pages == PagesTransparent,
	})
	if err != nil {
		return fmt.Errorf("mmap: %w%s", err, Advice(err))
	}
	s.mem = mem
	if s.head.pages == PagesTransparent && s.sys.collapse(mem) != nil {
		s.head.pages = PagesSmall // refused or not known to this kernel: the memory is good as it is
	}
	s.publish()
	if err := s.sys.addSeals(fd, seals); err != nil {
		return fmt.Errorf("sealing: %w%s", err, Advice(err))
	}
	return nil
}

// seals prevent that a peer's ftruncate causes a SIGBUS here: no process can change the
// size any more, and none can add or remove seals.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// openFile creates the memfd, without the no-exec seal where the kernel (before
// 6.3) doesn't know it.
func (s *Segment) openFile() error {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING | unix.MFD_NOEXEC_SEAL
	if s.head.pages == PagesHuge {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	name := "disco:" + s.head.name
	fd, err := s.sys.memfdCreate(name, flags)
	if errors.Is(err, unix.EINVAL) {
		fd, err = s.sys.memfdCreate(name, flags&^unix.MFD_NOEXEC_SEAL)
	}
	if err != nil {
		return err
	}
	s.file = os.NewFile(uintptr(fd), name)
	return nil
}

// Take takes the memory of so many bytes of the body from offset on, of a segment that was made with
// Config.TakeBytes: before they are touched, or a machine that is out of memory ends some process, perhaps this one.
// What is there already stays as it is. Only the creator, and who has attached it for writing with Want.Partial, may
// call it. It makes system calls. Its error is ErrMemory where memory is short, and nothing is changed by then.
func (s *Segment) Take(offset, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset < 0 || bytes < 0 || offset > s.head.bodyBytes || bytes > s.head.bodyBytes-offset {
		panic(fmt.Sprintf("shm: taking %d bytes at %d of a body of %d", bytes, offset, s.head.bodyBytes))
	}
	if s.head.pages == PagesHeap {
		return nil
	}
	if s.file == nil {
		return fmt.Errorf("shm: segment %q: it was not attached to take memory: set Want.Partial", s.head.name)
	}
	err := checkAvailable(s.sys, bytes)
	if err == nil {
		from := s.head.bodyOffset + offset
		err = s.reserve(int(s.file.Fd()), from, from+bytes)
	}
	if err != nil {
		return fmt.Errorf("shm: segment %q: taking %d bytes: %w%s", s.head.name, bytes, err, Advice(err))
	}
	return nil
}

// reserve takes the memory behind the file between two offsets, step by step.
func (s *Segment) reserve(fd, from, to int) error {
	for at := from; at < to; at += reserveStepBytes {
		n := min(reserveStepBytes, to-at)
		err := s.sys.fallocate(fd, int64(at), int64(n))
		for tries := 1; errors.Is(err, unix.EINTR) && tries < reserveTriesMax; tries++ {
			err = s.sys.fallocate(fd, int64(at), int64(n))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
