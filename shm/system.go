// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// system is the machine as Create, Attach and Close see it: one entry for every
// step that can fail, so that a test can let each of them fail.
type system struct {
	available   func() int64
	memfdCreate func(name string, flags int) (fd int, err error)
	ftruncate   func(fd int, size int64) error
	fallocate   func(fd int, offset, size int64) error
	mmap        func(fd, size int, m mapping) ([]byte, error)
	protect     func(mem []byte) error // lets it be read and written
	collapse    func(mem []byte) error
	munmap      func(mem []byte) error
	addSeals    func(fd, seals int) error
	getSeals    func(fd int) (int, error)
	fileBytes   func(fd int) (size, reserved int64, err error)
	pread       func(fd int, p []byte, offset int64) (int, error)
	duplicate   func(f *os.File) (*os.File, error)
	close       func(f *os.File) error
}

// mapping says how to map a file.
type mapping struct {
	writable bool // else reading only
	populate bool // fill the page tables now
	huge     bool // at an address where huge pages can be mapped as such
}

// linux is the real machine. It is never changed.
var linux = system{
	available:   AvailableBytes,
	memfdCreate: unix.MemfdCreate,
	ftruncate:   unix.Ftruncate,
	fallocate:   func(fd int, offset, size int64) error { return unix.Fallocate(fd, 0, offset, size) },
	mmap:        mapFile,
	protect:     func(mem []byte) error { return unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE) },
	collapse:    func(mem []byte) error { return unix.Madvise(mem, unix.MADV_COLLAPSE) },
	munmap:      unmapFile,
	addSeals: func(fd, seals int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		return err
	},
	getSeals:  func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0) },
	fileBytes: fileBytes,
	pread:     unix.Pread,
	duplicate: duplicate,
	close:     (*os.File).Close,
}

// duplicate is a second descriptor of a file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("a second descriptor: %w%s", err, Advice(err))
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// fileBytes is the size of a regular file, which a memfd is, and how much of it has
// memory behind it.
func fileBytes(fd int) (size, reserved int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, 0, fmt.Errorf("%w: mode %#o is not that of a regular file", ErrSize, st.Mode)
	}
	return st.Size, st.Blocks * statBlockBytes, nil
}

// statBlockBytes is the unit of Stat_t.Blocks, whatever the file system's own is.
const statBlockBytes = 512

// protection and flags of mmap.
func (m mapping) bits() (prot, flags int) {
	prot, flags = unix.PROT_READ, unix.MAP_SHARED
	if m.writable {
		prot |= unix.PROT_WRITE
	}
	if m.populate {
		flags |= unix.MAP_POPULATE
	}
	return prot, flags
}
