// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What Create promises, seen from a second mapping of the same file.
func TestCreateAttach(t *testing.T) {
	for _, size := range []int{1, 4096, 100_000, 5 << 20} {
		for _, huge := range []bool{false, true} {
			s := mustCreate(t, Config{Name: "unit", Kind: testKind, Size: size, HugePages: huge})
			if s.Size() != size || len(s.Body()) != size || cap(s.Body()) != size ||
				!aligned(s.Body(), os.Getpagesize()) {
				t.Fatalf("size %d: body of %d bytes (cap %d) at %p", size, len(s.Body()), cap(s.Body()), s.Body())
			}
			if !bytes.Equal(s.Body(), make([]byte, size)) {
				t.Fatalf("size %d: new body isn't zero", size)
			}
			s.Body()[size-1] = 0xA5
			a := mustAttach(t, s.File(), Want{Kind: testKind, Size: size, ID: s.ID(), ReadOnly: true})
			if a.Name() != "unit" || a.Kind() != testKind || a.Size() != size || a.ID() != s.ID() ||
				a.Pages() != s.Pages() || !a.ReadOnly() || s.ReadOnly() {
				t.Fatalf("attached %q %v %d %#x %v", a.Name(), a.Kind(), a.Size(), a.ID(), a.Pages())
			}
			if a.Body()[size-1] != 0xA5 || a.File() != nil {
				t.Fatalf("attached body ends in %#x, file %v", a.Body()[size-1], a.File())
			}
			b := mustAttach(t, s.File(), Want{Kind: testKind})
			b.Body()[0] = 0x5A
			if a.Body()[0] != 0x5A || s.Body()[0] != 0x5A {
				t.Fatal("mappings don't share memory")
			}
			if !huge && s.Pages() != PagesSmall {
				t.Fatalf("unasked for %v", s.Pages())
			}
			t.Logf("size %d, huge %v: %v", size, huge, s.Pages())
		}
	}
}

// No process can shorten the file under a mapping, or remove the seals.
func TestSealed(t *testing.T) {
	s := mustCreate(t, Config{Name: "sealed", Kind: testKind, Size: 10000})
	fd := int(s.File().Fd())
	if err := unix.Ftruncate(fd, 0); err != unix.EPERM {
		t.Errorf("shrinking: %v, want EPERM", err)
	}
	if err := unix.Ftruncate(fd, 1<<20); err != unix.EPERM {
		t.Errorf("growing: %v, want EPERM", err)
	}
	if err := linux.addSeals(fd, unix.F_SEAL_WRITE); err == nil {
		t.Error("added another seal")
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v, want close-on-exec", flags, err)
	}
}

func TestCloseTwice(t *testing.T) {
	s, err := Create(Config{Name: "twice", Kind: testKind, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	f := s.File()
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Body() != nil || s.File() != nil {
			t.Fatal("body or file after Close")
		}
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("file after Close: %v", err)
	}
	h := mustHeap(t, 100)
	if len(h.Body()) != 100 || h.File() != nil || h.Pages() != PagesHeap {
		t.Fatalf("heap segment: %d bytes, file %v, %v", len(h.Body()), h.File(), h.Pages())
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil || h.Body() != nil {
		t.Fatalf("closing a heap segment: %v, body %v", err, h.Body() != nil)
	}
}

// A segment that is no longer mapped can still be handed on.
func TestUnmap(t *testing.T) {
	s := mustCreate(t, Config{Name: "unmapped", Kind: testKind, Size: 100})
	s.Body()[7] = 9
	for range 2 {
		if err := s.Unmap(); err != nil || s.Body() != nil || s.File() == nil {
			t.Fatalf("%v, body %v, file %v", err, s.Body() != nil, s.File())
		}
	}
	if _, maps := held(t, "unmapped"); maps != 0 {
		t.Errorf("%d mappings", maps)
	}
	other, err := Attach(s.File(), Want{Kind: testKind})
	if err != nil || other.Body()[7] != 9 {
		t.Fatalf("attaching: %v", err)
	}
	if err := other.Unmap(); err != nil || other.Body() == nil {
		t.Errorf("an attached segment has no file to map it from again: %v", err)
	}
	if err := errors.Join(other.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if h := mustHeap(t, 100); h.Unmap() != nil || h.Body() == nil {
		t.Error("a heap segment has no file")
	}
}

func TestConfigRefused(t *testing.T) {
	good := Config{Name: "good", Kind: testKind, Size: 1}
	for what, spoil := range map[string]func(*Config){
		"no name":      func(c *Config) { c.Name = "" },
		"long name":    func(c *Config) { c.Name = strings.Repeat("x", NameBytesMax+1) },
		"control":      func(c *Config) { c.Name = "a\nb" },
		"no kind":      func(c *Config) { c.Kind = 0 },
		"no size":      func(c *Config) { c.Size = 0 },
		"negative":     func(c *Config) { c.Size = -1 },
		"beyond limit": func(c *Config) { c.Size = BytesMax },
	} {
		cfg := good
		spoil(&cfg)
		for _, open := range []func(Config) (*Segment, error){Create, Heap} {
			if s, err := open(cfg); err == nil || s != nil {
				t.Errorf("%s: got %v, %v", what, s, err)
			}
		}
	}
	if _, err := Attach(os.Stdin, Want{}); err == nil {
		t.Error("Attach without a kind")
	}
}

// forge makes a sealed memfd with any contents, as a hostile peer would.
func forge(t *testing.T, size int64, sealed int, header []byte, sparse bool) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("forged", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "forged")
	t.Cleanup(func() { f.Close() })
	if sparse {
		err = f.Truncate(size)
	} else {
		err = unix.Fallocate(fd, 0, 0, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	if err := linux.addSeals(fd, sealed); err != nil {
		t.Fatal(err)
	}
	return f
}

// goodHeader is the header of a file of pages whole pages that Attach accepts.
func goodHeader(pages int) []byte {
	raw := make([]byte, HeaderBytes)
	page := os.Getpagesize()
	h := header{kind: testKind, totalBytes: pages * page, bodyOffset: page, bodyBytes: (pages-1)*page - 10, id: 77,
		name: "forged"}
	h.encode(raw)
	binary.LittleEndian.PutUint32(raw[offsetVersion:], HeaderVersion)
	return raw
}

// Every way to be refused, and that the text says what was found and what is
// wanted.
func TestAttachRefused(t *testing.T) {
	page := os.Getpagesize()
	size := int64(3 * page)
	put32 := func(at int, v uint32) func([]byte) {
		return func(h []byte) { binary.LittleEndian.PutUint32(h[at:], v) }
	}
	put64 := func(at int, v uint64) func([]byte) {
		return func(h []byte) { binary.LittleEndian.PutUint64(h[at:], v) }
	}
	keep := func([]byte) {}
	cases := []struct {
		what  string
		spoil func([]byte)
		size  int64
		seals int
		want  Want
		err   error
		text  string
	}{
		{"good", keep, size, seals, Want{Kind: testKind}, nil, ""},
		{"good, exact", keep, size, seals, Want{Kind: testKind, Size: 2*page - 10, SizeMax: 2 * page, ID: 77}, nil, ""},
		{"good, packed", put64(offsetBody, HeaderBytes), size, seals, Want{Kind: testKind}, nil, ""},
		{"packed at another place", put64(offsetBody, 2*HeaderBytes), size, seals, Want{Kind: testKind}, ErrSize,
			"or at 128"},
		{"packed, with writable bytes", put64(offsetBody, HeaderBytes), size, seals,
			Want{Kind: testKind, ReadOnly: true, WritableBytes: 1}, ErrSize, "at offset 128"},
		{"more seals", keep, size, seals | unix.F_SEAL_FUTURE_WRITE, Want{Kind: testKind, ReadOnly: true}, nil, ""},
		{"no seals", keep, size, 0, Want{Kind: testKind}, ErrSeals, "0x0"},
		{"may shrink", keep, size, seals &^ unix.F_SEAL_SHRINK, Want{Kind: testKind}, ErrSeals, "0x5"},
		{"may grow", keep, size, seals &^ unix.F_SEAL_GROW, Want{Kind: testKind}, ErrSeals, "0x3"},
		{"may be resealed", keep, size, seals &^ unix.F_SEAL_SEAL, Want{Kind: testKind}, ErrSeals, "0x6"},
		{"short file", keep, HeaderBytes - 1, seals, Want{Kind: testKind}, ErrSize, "127"},
		{"sparse", keep, size, seals, Want{Kind: testKind}, ErrSparse, fmt.Sprintf("of %d bytes", size)},
		{"cut file", keep, size - int64(page), seals, Want{Kind: testKind}, ErrSize, fmt.Sprint(size)},
		{"longer file", keep, size + 1, seals, Want{Kind: testKind}, ErrSize, fmt.Sprint(size)},
		{"magic", func(h []byte) { h[3] = 'X' }, size, seals, Want{Kind: testKind}, ErrMagic, "disXoseg"},
		{"byte order", put64(offsetOrder, 0x0807060504030201), size, seals, Want{Kind: testKind}, ErrByteOrder,
			"0x807060504030201"},
		{"unfinished", put32(offsetVersion, 0), size, seals, Want{Kind: testKind}, ErrVersion, "not finished"},
		{"newer", put32(offsetVersion, 9), size, seals, Want{Kind: testKind}, ErrVersion, "version 9"},
		{"other kind", keep, size, seals, Want{Kind: KindPool}, ErrKind, `"pool"`},
		{"kind in numbers", put32(offsetKind, 5), size, seals, Want{Kind: testKind}, ErrKind, "0x5"},
		{"other creation", keep, size, seals, Want{Kind: testKind, ID: 78}, ErrIdentity, "0x4d"},
		{"total", put64(offsetTotal, 1<<63), size, seals, Want{Kind: testKind}, ErrSize, "9223372036854775808"},
		{"body in header", put64(offsetBody, 0), size, seals, Want{Kind: testKind}, ErrSize, "offset 0"},
		{"body off page", put64(offsetBody, uint64(page)+64), size, seals, Want{Kind: testKind}, ErrSize,
			fmt.Sprint(page + 64)},
		{"body beyond", put64(offsetBody, 4*uint64(page)), size, seals, Want{Kind: testKind}, ErrSize, ""},
		{"body too long", put64(offsetBodySize, uint64(2*page)+1), size, seals, Want{Kind: testKind}, ErrSize, ""},
		{"body wraps", put64(offsetBodySize, ^uint64(0)), size, seals, Want{Kind: testKind}, ErrSize, ""},
		{"no body", put64(offsetBodySize, 0), size, seals, Want{Kind: testKind}, ErrSize, ""},
		{"not that size", keep, size, seals, Want{Kind: testKind, Size: 5}, ErrSize, "exactly 5"},
		{"over the limit", keep, size, seals, Want{Kind: testKind, SizeMax: 5}, ErrSize, "at most 5"},
	}
	for _, c := range cases {
		h := goodHeader(3)
		c.spoil(h)
		f := forge(t, c.size, c.seals, h[:min(int64(len(h)), c.size)], c.err == ErrSparse)
		s, err := Attach(f, c.want)
		if !errors.Is(err, c.err) || (err == nil) != (s != nil) {
			t.Errorf("%s: %v, want %v", c.what, err, c.err)
			continue
		}
		if err != nil && (!strings.Contains(err.Error(), c.text) ||
			!strings.HasPrefix(err.Error(), "shm: attaching ")) {
			t.Errorf("%s: %q doesn't say %q", c.what, err, c.text)
		}
		if s != nil {
			s.Close()
		}
	}
}

// A peer's name and page word are shown, never believed.
func TestAttachStrangeWords(t *testing.T) {
	h := goodHeader(2)
	copy(h[offsetName:], "a\x1b[31m\xff")
	binary.LittleEndian.PutUint32(h[offsetPages:], uint32(PagesHeap))
	s, err := Attach(forge(t, int64(2*os.Getpagesize()), seals, h, false), Want{Kind: testKind})
	if err != nil {
		t.Fatal(err)
	}
	if s.Name() != "a?[31m?" || s.Pages() == PagesHeap {
		t.Errorf("name %q, %v", s.Name(), s.Pages())
	}
	if err := s.Close(); err != nil || s.Body() != nil {
		t.Errorf("close: %v", err)
	}
}

func TestAttachOtherFiles(t *testing.T) {
	plain, err := os.Create(t.TempDir() + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	for _, f := range []*os.File{w, r} {
		if _, err := Attach(f, Want{Kind: testKind}); err == nil {
			t.Errorf("attached %q", f.Name())
		}
	}
	if _, err := Attach(plain, Want{Kind: testKind}); err == nil {
		t.Error("attached a plain file")
	}
}

// Pre-faulted means that no page of the body faults any more.
func TestPopulated(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size = 16 << 20
	faults := func(s *Segment, write bool) int64 {
		var before, after unix.Rusage
		body, sum := s.Body(), byte(0)
		unix.Getrusage(unix.RUSAGE_THREAD, &before)
		for at := 0; at < size; at += 4096 {
			if write {
				body[at] = 1
			} else {
				sum += body[at]
			}
		}
		unix.Getrusage(unix.RUSAGE_THREAD, &after)
		return after.Minflt - before.Minflt
	}
	s := mustCreate(t, Config{Name: "populated", Kind: testKind, Size: size})
	if n := faults(s, true); n > 16 {
		t.Errorf("%d page faults in a new segment of %d pages", n, size/4096)
	}
	if n := faults(mustAttach(t, s.File(), Want{Kind: testKind}), true); n > 16 {
		t.Errorf("%d page faults in an attached segment", n)
	}
	if n := faults(mustAttach(t, s.File(), Want{Kind: testKind, ReadOnly: true}), false); n > 16 {
		t.Errorf("%d page faults in a segment attached for reading", n)
	}
	lazy := mustCreate(t, Config{Name: "lazy", Kind: testKind, Size: size, NoPopulate: true})
	t.Logf("%d page faults with NoPopulate", faults(lazy, true))
}

// A machine without the memory says so at creation, before the kernel kills.
func TestCreateWithoutRoom(t *testing.T) {
	const have = 64 << 20
	f := newFaulty(nil)
	f.available = func() int64 { return have }
	for size, want := range map[int]error{have - have/keepShare: ErrMemory, 1 << 20: nil} {
		s, err := create(Config{Name: "whale", Kind: testKind, Size: size}, &f.system)
		if !errors.Is(err, want) {
			t.Errorf("%d of %d bytes: %v, want %v", size, have, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), `"whale"`) ||
			!strings.Contains(err.Error(), fmt.Sprint(have))) {
			t.Errorf("%q says too little", err)
		}
		if s != nil {
			s.Close()
		}
	}
	if n := AvailableBytes(); n <= 0 || n == math.MaxInt64 {
		t.Errorf("this machine has %d bytes available", n)
	}
	if s, err := Create(Config{Name: "whale", Kind: testKind, Size: BytesMax / 2}); !errors.Is(err, ErrMemory) {
		if s != nil {
			s.Close()
			t.Skip("this machine has half a tebibyte of memory")
		}
		t.Errorf("half a tebibyte: %v", err)
	}
}

// What the kernel's files say, and what they may leave out.
func TestAvailableTexts(t *testing.T) {
	const none = math.MaxInt64
	for text, want := range map[string]int64{
		"":                          none,
		"MemTotal: 5 kB\n":          none,
		"MemAvailable:    12345 kB": 12345 << 10,
		"MemFree: 1 kB\nMemAvailable:\t7 kB\nX: 9 kB\n": 7 << 10,
		"MemAvailable: much":                            none &^ 1023,
	} {
		if got := machineBytes(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	dirs := groupDirs("0::/a/b\n")
	if len(dirs) != 3 || dirs[0].path != "/sys/fs/cgroup/a/b" || dirs[2].path != "/sys/fs/cgroup" ||
		dirs[0].limit != "memory.max" {
		t.Errorf("version 2: %+v", dirs)
	}
	dirs = groupDirs("4:memory:/../x\n")
	if len(dirs) != 2 || dirs[0].path != "/sys/fs/cgroup/memory/x" || dirs[1].limit != "memory.limit_in_bytes" {
		t.Errorf("version 1: %+v", dirs)
	}
	if dirs := append(groupDirs("7:blkio:/"), groupDirs("garbage")...); len(dirs) != 0 {
		t.Errorf("other groups: %+v", dirs)
	}
	dir := groupDir{path: t.TempDir(), limit: "max", usage: "now"}
	write := func(name, text string) {
		if err := os.WriteFile(dir.path+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		max, now, stat string
		want           int64
	}{
		{"max\n", "10\n", "", none},
		{"100\n", "", "", none},
		{"100\n", "30\n", "anon 5\nactive_file 3\ninactive_file 4\n", 77},
		{"100\n", "30\n", "active_file 3\ntotal_active_file 1\ntotal_inactive_file 1\n", 72},
		{"100\n", "130\n", "", 0},
		{"9223372036854771712\n", "30\n", "active_file 9000\ninactive_file 1\n", 9223372036854771712},
		{"100\n", "30\n", "active_file 9223372036854775806\ninactive_file 9223372036854775806\n", 100},
	} {
		write("max", c.max)
		write("now", c.now)
		write("memory.stat", c.stat)
		if got := groupBytes(dir); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// A segment that takes its memory later: what is there at once, what Take adds, and who may attach it.
func TestTake(t *testing.T) {
	size := 8 << 20
	s := mustCreate(t, Config{Name: "later", Kind: testKind, Size: size, TakeBytes: 100})
	reserved := func() int64 {
		_, n, err := fileBytes(int(s.File().Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	page := int64(os.Getpagesize())
	if n := reserved(); n != 2*page {
		t.Fatalf("%d bytes taken at once, want the header's page and one more", n)
	}
	if _, err := Attach(s.File(), Want{Kind: testKind}); !errors.Is(err, ErrSparse) {
		t.Fatalf("attached without Partial: %v", err)
	}
	owner := mustAttach(t, s.File(), Want{Kind: testKind, Partial: true})
	reader := mustAttach(t, s.File(), Want{Kind: testKind, Partial: true, ReadOnly: true})
	if n := reserved(); n != 2*page {
		t.Fatalf("%d bytes after attaching", n)
	}
	for range 2 { // what is there already stays
		if err := owner.Take(1<<20, 1<<20); err != nil {
			t.Fatal(err)
		}
		if n := reserved(); n < 1<<20 || n > 1<<20+4*page {
			t.Fatalf("%d bytes after taking 1 MiB", n)
		}
		owner.Body()[1<<20] = 7
	}
	if reader.Body()[1<<20] != 7 || reader.Body()[size-1] != 0 {
		t.Fatal("the reader sees something else")
	}
	if err := reader.Take(0, 1); err == nil || !strings.Contains(err.Error(), "Want.Partial") {
		t.Errorf("a reader takes memory: %v", err)
	}
	if err := mustHeap(t, 100).Take(0, 100); err != nil {
		t.Errorf("heap: %v", err)
	}
	full := linux
	full.available = func() int64 { return 1 << 20 }
	owner.sys = &full
	if err := owner.Take(4<<20, 1<<20); !errors.Is(err, ErrMemory) {
		t.Errorf("without memory: %v, want ErrMemory", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("took what is beyond the body")
		}
	}()
	_ = owner.Take(size, 1)
}

// A packed body begins behind the header, and a page is enough for both.
func TestPacked(t *testing.T) {
	page := os.Getpagesize()
	cfg := Config{Name: "packed", Kind: testKind, Size: page - HeaderBytes, Packed: true}
	s := mustCreate(t, cfg)
	copy(s.Body(), "first")
	copy(s.Body()[cfg.Size-4:], "last")
	raw := make([]byte, page+1)
	n, _ := s.File().ReadAt(raw, 0)
	if n != page || string(raw[HeaderBytes:HeaderBytes+5]) != "first" || string(raw[page-4:page]) != "last" {
		t.Errorf("file of %d bytes, want %d", n, page)
	}
	peer, err := Attach(s.File(), Want{Kind: testKind, Size: cfg.Size})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if !bytes.Equal(peer.Body(), s.Body()) || len(peer.Body()) != cfg.Size {
		t.Error("the peer sees another body")
	}
	h, err := Heap(cfg)
	if err != nil || len(h.Body()) != cfg.Size || !aligned(h.Body(), HeaderBytes) {
		t.Errorf("heap: %d bytes, %v", len(h.Body()), err)
	}
}
