// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// faulty is the real machine with one step, or several, that fail. It keeps a
// list of the steps taken.
type faulty struct {
	system
	fail  map[int]error // by number of the call, from 0
	steps []string
}

func newFaulty(fail map[int]error) *faulty {
	f := &faulty{system: linux, fail: fail}
	s := &f.system
	s.memfdCreate = func(name string, flags int) (int, error) {
		if err := f.step("memfd_create"); err != nil {
			return -1, err
		}
		return linux.memfdCreate(name, flags)
	}
	s.ftruncate = func(fd int, size int64) error {
		return errors.Join(f.step("ftruncate"), linux.ftruncate(fd, size))
	}
	s.fallocate = func(fd int, offset, size int64) error {
		if err := f.step("fallocate"); err != nil {
			return err
		}
		return linux.fallocate(fd, offset, size)
	}
	s.mmap = func(fd, size int, m mapping) ([]byte, error) {
		if err := f.step("mmap"); err != nil {
			return nil, err
		}
		return linux.mmap(fd, size, m)
	}
	s.protect = func(mem []byte) error { return errors.Join(f.step("mprotect"), linux.protect(mem)) }
	s.collapse = func(mem []byte) error { return errors.Join(f.step("collapse"), linux.collapse(mem)) }
	s.munmap = func(mem []byte) error { return errors.Join(f.step("munmap"), linux.munmap(mem)) }
	s.addSeals = func(fd, seals int) error {
		if err := f.step("seal"); err != nil {
			return err
		}
		return linux.addSeals(fd, seals)
	}
	s.getSeals = func(fd int) (int, error) {
		n, err := linux.getSeals(fd)
		return n, errors.Join(f.step("get seals"), err)
	}
	s.fileBytes = func(fd int) (int64, int64, error) {
		n, reserved, err := linux.fileBytes(fd)
		return n, reserved, errors.Join(f.step("fstat"), err)
	}
	s.pread = func(fd int, p []byte, offset int64) (int, error) {
		n, err := linux.pread(fd, p, offset)
		return n, errors.Join(f.step("pread"), err)
	}
	s.close = func(file *os.File) error { return errors.Join(f.step("close"), linux.close(file)) }
	return f
}

func (f *faulty) step(name string) error {
	f.steps = append(f.steps, name)
	if err := f.fail[len(f.steps)-1]; err != nil {
		return err
	}
	return nil
}

// held counts the descriptors and mappings of this process whose memfd carries
// the name.
func held(t *testing.T, name string) (files, mappings int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.Contains(to, "disco:"+name) {
			files++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return files, strings.Count(string(maps), "disco:"+name)
}

var errInjected = errors.New("injected fault")

// Each step of a creation fails once; nothing is left behind, and the error says
// what failed. A step that may be refused (huge pages, the no-exec seal) fails
// over to the next best.
func TestCreateFaults(t *testing.T) {
	for _, cfg := range []Config{
		{Name: "fault-small", Kind: testKind, Size: 2*reserveStepBytes + 1},
		{Name: "fault-huge", Kind: testKind, Size: 3 << 20, HugePages: true},
	} {
		seen := map[string]bool{}
		for n := 0; ; n++ {
			f := newFaulty(map[int]error{n: errInjected})
			s, err := create(cfg, &f.system)
			if n >= len(f.steps) {
				s.Close()
				break
			}
			failed := f.steps[n]
			seen[failed] = true
			switch {
			case err == nil && (failed == "collapse" || cfg.HugePages):
				// The next best kind of pages.
			case err == nil:
				t.Errorf("%s: step %d (%s) failed unnoticed", cfg.Name, n, failed)
			case !errors.Is(err, errInjected):
				t.Errorf("%s: step %d (%s): %v hides the fault", cfg.Name, n, failed, err)
			}
			if s != nil {
				if len(s.Body()) != cfg.Size {
					t.Errorf("%s: body of %d bytes", cfg.Name, len(s.Body()))
				}
				s.Close()
			}
			if files, maps := held(t, cfg.Name); files != 0 || maps != 0 {
				t.Fatalf("%s: step %d (%s) left %d files and %d mappings", cfg.Name, n, failed, files, maps)
			}
		}
		for _, step := range []string{"memfd_create", "ftruncate", "fallocate", "mmap", "seal"} {
			if !seen[step] {
				t.Errorf("%s: %s never failed", cfg.Name, step)
			}
		}
	}
}

// Every pair of steps fails, so that the clean-up itself meets faults: it goes on
// with the rest, and says so.
func TestCreateDoubleFaults(t *testing.T) {
	cfg := Config{Name: "fault-double", Kind: testKind, Size: 100}
	for n := range 6 {
		for m := n + 1; m < 9; m++ {
			other := errors.New("second fault")
			f := newFaulty(map[int]error{n: errInjected, m: other})
			s, err := create(cfg, &f.system)
			if s != nil || !errors.Is(err, errInjected) && n < 5 {
				if s != nil {
					s.Close()
					continue // neither step was reached before success
				}
				t.Fatalf("faults at %d and %d: %v", n, m, err)
			}
			if m < len(f.steps) && !errors.Is(err, other) {
				t.Errorf("faults at %d and %d (%s): %v hides the second", n, m, f.steps[m], err)
			}
			if files, maps := held(t, cfg.Name); files != 0 || maps != 0 {
				t.Fatalf("faults at %d and %d left %d files and %d mappings", n, m, files, maps)
			}
		}
	}
}

// An old kernel doesn't know the no-exec seal; a signal interrupts fallocate.
func TestCreateRetries(t *testing.T) {
	f := newFaulty(map[int]error{0: unix.EINVAL, 3: unix.EINTR, 4: unix.EINTR})
	s, err := create(Config{Name: "retries", Kind: testKind, Size: 100}, &f.system)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	want := "memfd_create memfd_create ftruncate fallocate fallocate fallocate mmap seal munmap close"
	if got := strings.Join(f.steps, " "); got != want {
		t.Errorf("steps %q, want %q", got, want)
	}
	endless := map[int]error{}
	for i := range 2 * reserveTriesMax {
		endless[i+2] = unix.EINTR
	}
	f = newFaulty(endless)
	if _, err := create(Config{Name: "retries", Kind: testKind, Size: 100}, &f.system); !errors.Is(err, unix.EINTR) {
		t.Errorf("interrupted for ever: %v", err)
	}
}

// Each step of an attachment fails once; the file stays the caller's.
func TestAttachFaults(t *testing.T) {
	s := mustCreate(t, Config{Name: "fault-attach", Kind: testKind, Size: 100})
	for n, step := range []string{"get seals", "fstat", "pread", "mmap", "mprotect"} {
		f := newFaulty(map[int]error{n: errInjected})
		a, err := attach(s.File(), Want{Kind: testKind, ReadOnly: true, WritableBytes: 10}, &f.system)
		if a != nil || !errors.Is(err, errInjected) || f.steps[n] != step {
			t.Errorf("step %d (%v, want %s): %v", n, f.steps, step, err)
		}
		if files, maps := held(t, "fault-attach"); files != 1 || maps != 1 {
			t.Fatalf("%s: %d files and %d mappings, want the creator's own", step, files, maps)
		}
	}
	f := newFaulty(nil)
	f.pread = func(int, []byte, int64) (int, error) { return 5, nil }
	if _, err := attach(s.File(), Want{Kind: testKind}, &f.system); !errors.Is(err, ErrSize) {
		t.Errorf("short read: %v", err)
	}
}

// Close that the machine refuses still closes, and tells both faults.
func TestCloseFaults(t *testing.T) {
	second := errors.New("second fault")
	f := newFaulty(nil)
	s, err := create(Config{Name: "fault-close", Kind: testKind, Size: 100}, &f.system)
	if err != nil {
		t.Fatal(err)
	}
	f.fail = map[int]error{len(f.steps): errInjected, len(f.steps) + 1: second}
	if err := s.Close(); !errors.Is(err, errInjected) || !errors.Is(err, second) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil || s.Body() != nil {
		t.Errorf("second close: %v", err)
	}
	if files, maps := held(t, "fault-close"); files != 0 || maps != 0 {
		t.Errorf("%d files and %d mappings left", files, maps)
	}
}

// An aligned mapping reserves address space first; it must not leak when the
// mapping proper fails.
func TestAlignedMappingFault(t *testing.T) {
	const tries, size = 64, 1 << 30
	before := virtualBytes(t)
	for range tries {
		if _, err := mapFile(-1, size, mapping{huge: true}); err == nil {
			t.Fatal("mapped no file")
		}
	}
	if grown := virtualBytes(t) - before; grown > tries*size/4 {
		t.Errorf("address space grew by %d bytes", grown)
	}
	s := mustCreate(t, Config{Name: "aligned", Kind: testKind, Size: 5 << 20})
	for range tries {
		mem, err := mapFile(int(s.File().Fd()), len(s.mem), mapping{huge: true})
		if err != nil {
			t.Fatal(err)
		}
		if !aligned(mem, hugePageBytes) {
			t.Fatalf("mapped at %p", mem)
		}
		if err := unmapFile(mem); err != nil {
			t.Fatal(err)
		}
	}
	if _, maps := held(t, "aligned"); maps != 1 {
		t.Errorf("%d mappings left, want 1", maps)
	}
}

func virtualBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(fmt.Errorf("statm %q: %w", text, err))
	}
	return pages * int64(os.Getpagesize())
}

// Whatever call of a start fails with whatever a machine answers, the error says what to
// change, and nothing is left.
func TestFaultsNameTheRemedy(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EMFILE: "ulimit -n", unix.ENFILE: "fs.file-max", unix.ENOMEM: "ulimit -v", unix.ENOSPC: "container",
		unix.ENOSYS: "inproc", unix.EPERM: "seccomp", unix.EACCES: "memfd_noexec", unix.EINVAL: "sealing",
	} {
		for n := 0; ; n++ {
			fail := map[int]error{n: errno}
			if errno == unix.EINVAL && n == 0 {
				fail[1] = errno // the first is taken for an old kernel's
			}
			f := newFaulty(fail)
			s, err := create(Config{Name: "advice", Kind: testKind, Size: 100}, &f.system)
			if s != nil {
				s.Close()
				break
			}
			if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v from step %d (%s): %v, want advice with %q", errno, n, f.steps[n], err, want)
			}
		}
		s := mustCreate(t, Config{Name: "advice-attach", Kind: testKind, Size: 100})
		for n, step := range []string{"get seals", "fstat", "pread", "mmap", "mprotect"} {
			if errno == unix.EINVAL && n < 3 || n == 1 || n == 2 {
				continue // EINVAL: no memfd; fstat and pread of an open file fail for nobody's fault
			}
			f := newFaulty(map[int]error{n: errno})
			_, err := attach(s.File(), Want{Kind: testKind, ReadOnly: true, WritableBytes: 1}, &f.system)
			if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v from %s: %v, want advice with %q", errno, step, err, want)
			}
		}
		s.Close()
		if files, maps := held(t, "advice"); files != 0 || maps != 0 {
			t.Fatalf("%v: %d files and %d mappings left", errno, files, maps)
		}
	}
	if got := Advice(errInjected); got != "" {
		t.Errorf("advice on an unknown fault: %q", got)
	}
}
