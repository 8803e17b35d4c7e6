// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

func TestNames(t *testing.T) {
	dir := newDir(t)
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "a b", "ä", "a\x00",
		strings.Repeat("x", ipc.NameMax+1)} {
		if r, err := ipc.Listen(name, ipc.ListenConfig{Dir: dir}); err == nil {
			r.Close()
			t.Errorf("listening as %q", name)
		}
		if _, err := ipc.Dial(within(t), name, ipc.DialConfig{Dir: dir}); err == nil ||
			errors.Is(err, ipc.ErrNoReceiver) {
			t.Errorf("dialing %q: %v", name, err)
		}
	}
	mustListen(t, strings.Repeat("x", ipc.NameMax), ipc.ListenConfig{Dir: dir})
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if _, err := ipc.Listen("a", ipc.ListenConfig{Dir: long}); err == nil ||
		!strings.Contains(err.Error(), "shorter Dir") {
		t.Errorf("a path too long for a socket: %v", err)
	}
}

func TestConfigs(t *testing.T) {
	dir := newDir(t)
	mustListen(t, "cfg", ipc.ListenConfig{Dir: dir})
	for what, cfg := range map[string]ipc.DialConfig{
		"ring no power of two": {RingBytes: 5000},
		"ring too small":       {RingBytes: 64},
		"ring too large":       {RingBytes: 1 << 31},
		"inline over the ring": {RingBytes: 4096, InlineMax: 2048},
		"inline negative":      {InlineMax: -1},
		"pool too small":       {PoolBytes: 1000},
		"pool negative":        {PoolBytes: -1},
		"no such mode":         {Wait: 99},
	} {
		cfg.Dir = dir
		if s, err := ipc.Dial(within(t), "cfg", cfg); err == nil {
			s.Close()
			t.Errorf("%s: dialed", what)
		}
	}
	for what, cfg := range map[string]ipc.ListenConfig{
		"negative senders":   {SendersMax: -1},
		"senders":            {SendersMax: 1 << 20},
		"lane segment bytes": {LaneBytesMax: -1},
		"pool bytes":         {PoolBytesMax: -1},
		"no such mode":       {Wait: 99},
	} {
		cfg.Dir = dir
		if r, err := ipc.Listen("other", cfg); err == nil {
			r.Close()
			t.Errorf("%s: listens", what)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("what was refused left %v", list)
	}
}

// The default directory is the user's own runtime directory, or one for the user below
// that for temporary files; it is made if it isn't there.
func TestDefaultDirectory(t *testing.T) {
	run, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for value, want := range map[string]string{run: run, "": tmp, "relative": tmp} {
		t.Setenv("XDG_RUNTIME_DIR", value)
		mustListen(t, "name", ipc.ListenConfig{})
		mustDial(t, "name", small(""))
		found, _ := filepath.Glob(filepath.Join(want, "disco*", "name.sock"))
		if len(found) != 1 {
			t.Fatalf("with XDG_RUNTIME_DIR=%q nothing in %s", value, want)
		}
		socket, _ := os.Stat(found[0])
		dir, _ := os.Stat(filepath.Dir(found[0]))
		if socket.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("socket %v in a directory %v", socket.Mode(), dir.Mode())
		}
		os.RemoveAll(filepath.Dir(found[0])) // so that the same directory can be tried again
	}
}

// A directory that others may enter, or a link to somewhere, is no place for sockets.
func TestPrivateDirectory(t *testing.T) {
	base := t.TempDir()
	open, private, link, file := filepath.Join(base, "open"), filepath.Join(base, "p"), filepath.Join(base, "link"),
		filepath.Join(base, "file")
	for _, err := range []error{os.Mkdir(open, 0o755), os.Chmod(open, 0o711), os.Mkdir(private, 0o700),
		os.Symlink(private, link), os.WriteFile(file, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{open, link, file} {
		if _, err := ipc.Listen("a", ipc.ListenConfig{Dir: dir}); !errors.Is(err, ipc.ErrPrivate) {
			t.Errorf("listening in %s: %v", dir, err)
		}
		if _, err := ipc.Dial(within(t), "a", ipc.DialConfig{Dir: dir}); !errors.Is(err, ipc.ErrPrivate) {
			t.Errorf("dialing in %s: %v", dir, err)
		}
	}
}

// One process at a time listens under a name. What a dead one left is no obstacle.
func TestOneListener(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "one", ipc.ListenConfig{Dir: dir})
	if _, err := ipc.Listen("one", ipc.ListenConfig{Dir: dir}); !errors.Is(err, ipc.ErrTaken) {
		t.Fatalf("a second listener: %v", err)
	}
	mustDial(t, "one", small(dir)) // the first one still listens
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// What kill -9 leaves: a socket that nobody accepts on, and a lock that nobody holds.
	socket := filepath.Join(dir, "one.sock")
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if err := os.WriteFile(filepath.Join(dir, "one.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ipc.Dial(within(t), "one", small(dir)); !errors.Is(err, ipc.ErrNoReceiver) {
		t.Errorf("dialing a dead listener: %v", err)
	}
	mustListen(t, "one", ipc.ListenConfig{Dir: dir})
	mustDial(t, "one", small(dir))
}

func TestNoReceiver(t *testing.T) {
	dir := newDir(t)
	if _, err := ipc.Dial(within(t), "x", small(dir)); !errors.Is(err, ipc.ErrNoReceiver) {
		t.Errorf("no directory: %v", err)
	}
	mustListen(t, "other", ipc.ListenConfig{Dir: dir})
	if _, err := ipc.Dial(within(t), "x", small(dir)); !errors.Is(err, ipc.ErrNoReceiver) {
		t.Errorf("no socket: %v", err)
	}
	cfg := small(dir)
	cfg.Retry = true
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, err := ipc.Dial(ctx, "x", cfg); !errors.Is(err, ipc.ErrNoReceiver) && !errors.Is(err, context.Canceled) {
		t.Errorf("patient until the end of its context: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		s, err := ipc.Dial(within(t), "x", cfg)
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	mustListen(t, "x", ipc.ListenConfig{Dir: dir})
	if err := <-done; err != nil {
		t.Errorf("patient: %v", err)
	}
}

// There are so many admitted, and one is free again when its sender has ended.
func TestSendersMax(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "admitted", ipc.ListenConfig{Dir: dir, SendersMax: 1})
	s := mustDial(t, "admitted", small(dir))
	if _, err := ipc.Dial(within(t), "admitted", small(dir)); !errors.Is(err, ipc.ErrRefused) ||
		!strings.Contains(err.Error(), "1 senders already") {
		t.Errorf("the second one: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	receiveEnd(t, r, ipc.ErrClosed)
	if s = mustDial(t, "admitted", small(dir)); s.Number() != 1 {
		t.Errorf("the third one is sender %d, want 1", s.Number())
	}
	if err := s.Send(within(t), []byte("hi")); err != nil {
		t.Fatal(err)
	}
	receive(t, r, "hi")
	if st := r.Stats(); st.Joined != 2 || st.Refused != 1 || st.LastFail == nil {
		t.Errorf("%+v", st)
	}
}

// A refused sender is counted before it gets the answer.
func TestRefusedIsCounted(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "full", ipc.ListenConfig{Dir: dir, SendersMax: 1})
	mustDial(t, "full", small(dir))
	for n := range uint64(300) {
		if _, err := ipc.Dial(within(t), "full", small(dir)); !errors.Is(err, ipc.ErrRefused) {
			t.Fatal(err)
		}
		if st := r.Stats(); st.Refused != n+1 || !errors.Is(st.LastFail, ipc.ErrBusy) {
			t.Fatalf("after %d refusals: %+v", n+1, st)
		}
	}
}

// The receiver's limits hold for what a sender brings, and the sender is told.
func TestLimits(t *testing.T) {
	dir := newDir(t)
	mustListen(t, "limits", ipc.ListenConfig{Dir: dir, LaneBytesMax: 128 << 10, PoolBytesMax: 1 << 20})
	for field, cfg := range map[string]ipc.DialConfig{
		"LaneBytesMax": {RingBytes: 128 << 10, InlineMax: 256, PoolBytes: 100 << 10},
		"PoolBytesMax": {RingBytes: 4096, InlineMax: 256, PoolBytes: 2 << 20},
	} {
		cfg.Dir = dir
		if _, err := ipc.Dial(within(t), "limits", cfg); !errors.Is(err, ipc.ErrRefused) ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	mustDial(t, "limits", ipc.DialConfig{Dir: dir, RingBytes: 4096, InlineMax: 256, NoPool: true})
}

// connectRaw connects to a receiver without being a Sender.
func connectRaw(t testing.TB, dir, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil,
		&net.UnixAddr{Name: filepath.Join(dir, name+".sock"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// hello is a well-formed hello for the segments, to be spoilt.
func hello(mem, pool *shm.Segment) []byte {
	b := make([]byte, 256)
	copy(b, "discoipc")
	binary.LittleEndian.PutUint32(b[8:], 1)
	binary.LittleEndian.PutUint32(b[12:], 2)
	binary.LittleEndian.PutUint64(b[16:], uint64(mem.Size()))
	binary.LittleEndian.PutUint64(b[24:], uint64(pool.Size()))
	binary.LittleEndian.PutUint64(b[32:], mem.ID())
	binary.LittleEndian.PutUint64(b[40:], pool.ID())
	return b
}

const kindLane shm.Kind = 'i' | 'p'<<8 | 'c'<<16 | 'l'<<24

func segment(t testing.TB, kind shm.Kind, size int, format func([]byte) error) *shm.Segment {
	t.Helper()
	s, err := shm.Create(shm.Config{Name: "test", Kind: kind, Size: size})
	if err == nil && format != nil {
		err = format(s.Body())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func goodSegments(t testing.TB) (mem, pool *shm.Segment) {
	t.Helper()
	sizes := []shm.BlockSize{{BlockBytes: 1000, Count: 4}}
	cfg := lane.Config{RingBytes: 4096, ReturnBlocks: 4}
	size, err := lane.Size(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mem = segment(t, kindLane, 128+size, func(b []byte) error { return lane.Format(b[128:], cfg) })
	poolBytes, err := shm.PoolBytes(sizes)
	if err != nil {
		t.Fatal(err)
	}
	return mem, segment(t, shm.KindPool, poolBytes, func(b []byte) error { return shm.FormatPool(b, sizes) })
}

// Whatever a peer sends during the handshake, the receiver refuses it, keeps none of its files, and accepts the
// next one.
func TestBadHandshakes(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "bad", ipc.ListenConfig{Dir: dir, PoolBytesMax: 1 << 20})
	mem, pool := goodSegments(t)
	raw := segment(t, kindLane, mem.Size(), nil)
	rawPool := segment(t, shm.KindPool, pool.Size(), nil)
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	both := []*os.File{mem.File(), pool.File()}
	spoilt := func(at int, word uint64, bytes int) []byte {
		b := hello(mem, pool)
		if bytes == 4 {
			binary.LittleEndian.PutUint32(b[at:], uint32(word))
		} else {
			binary.LittleEndian.PutUint64(b[at:], word)
		}
		return b
	}
	for what, c := range map[string]struct {
		packet []byte
		files  []*os.File
		answer string // "": none
	}{
		"no files":                     {hello(mem, pool), nil, "0 files came"},
		"one file of two":              {hello(mem, pool), both[:1], "1 files came"},
		"more files than said":         {spoilt(12, 1, 4), both, "2 files came, it names 1"},
		"too many files":               {hello(mem, pool), append(both, both...), ""},
		"too short":                    {hello(mem, pool)[:255], both, "packet of 255 bytes"},
		"too long":                     {append(hello(mem, pool), 0), both, ""},
		"one byte":                     {[]byte("d"), nil, "packet of 1 bytes"},
		"other magic":                  {spoilt(0, 0, 8), both, "starts with"},
		"other version":                {spoilt(8, 2, 4), both, "version 2"},
		"lane segment of no bytes":     {spoilt(16, 0, 8), both, "lane segment of 0 bytes"},
		"lane segment too large":       {spoilt(16, 1<<63, 8), both, "LaneBytesMax"},
		"lane segment of another size": {spoilt(16, uint64(mem.Size())+1, 8), both, "wrong size"},
		"pool too large":               {spoilt(24, 1<<63, 8), both, "PoolBytesMax"},
		"pool of another size":         {spoilt(24, uint64(pool.Size())-1, 8), both, "wrong size"},
		"lane segment without id":      {spoilt(32, 0, 8), both, "creation id"},
		"lane segment of another id":   {spoilt(32, 12345, 8), both, "other creation"},
		"pool of another id":           {spoilt(40, 12345, 8), both, "other creation"},
		"files swapped":                {hello(mem, pool), []*os.File{pool.File(), mem.File()}, "other kind"},
		"a file of the disk":           {hello(mem, pool), []*os.File{plain, pool.File()}, "missing seals"},
		"a segment without a lane":     {hello(raw, pool), []*os.File{raw.File(), pool.File()}, "not a lane"},
		"a pool without sizes":         {hello(mem, rawPool), []*os.File{mem.File(), rawPool.File()}, "malformed pool"},
	} {
		conn := connectRaw(t, dir, "bad")
		var rights []byte
		if n := len(c.files); n > 0 {
			fds := make([]int, n)
			for i, f := range c.files {
				fds[i] = int(f.Fd())
			}
			rights = syscall.UnixRights(fds...)
		}
		if _, _, err := conn.WriteMsgUnix(c.packet, rights, nil); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		answer := make([]byte, 512)
		n, _ := conn.Read(answer)
		text := string(bytes.TrimRight(answer[min(n, 40):n], "\x00"))
		if c.answer == "" && n > 0 || c.answer != "" &&
			(n != 256 || answer[12] != 1 || !strings.Contains(text, c.answer)) {
			t.Errorf("%s: answered %d bytes, %q, want %q", what, n, text, c.answer)
		}
		conn.Close()
	}
	connectRaw(t, dir, "bad").Close() // says nothing at all
	s := mustDial(t, "bad", small(dir))
	if err := s.Send(within(t), []byte("good")); err != nil {
		t.Fatal(err)
	}
	receive(t, r, "good")
	if st := r.Stats(); st.Joined != 1 || st.Senders != 1 {
		t.Errorf("%+v", st)
	}
	eventually(t, "the refused handshakes are over", func() bool { return r.Stats().Refused == 22 })
	if n := mappings(t); n != 6 { // board, mem and pool, each by both sides
		t.Errorf("%d mappings of two good sides, want 6", n)
	}
}

// A peer that connects in order and then writes into the memory what no sender writes loses its own lane only.
func TestBadRecords(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "records", ipc.ListenConfig{Dir: dir})
	good := mustDial(t, "records", small(dir))
	for what, spoil := range map[string]func(s *lane.Sender){
		"no envelope": func(s *lane.Sender) {
			rec, _ := s.Forward().Claim(3)
			copy(rec, "abc")
			s.Forward().Commit()
			s.Forward().Publish()
		},
		"a bound": func(s *lane.Sender) { s.Promise(1, 0) },
		"another number": func(s *lane.Sender) {
			rec, _ := s.Forward().Claim(32)
			clear(rec)
			rec[0], rec[16] = 1, 1
			s.Forward().Commit()
			s.Forward().Publish()
		},
		"a block that isn't": func(s *lane.Sender) {
			rec, _ := s.Forward().Claim(48)
			clear(rec)
			rec[0], rec[1], rec[4], rec[32] = 1, 1, 16, 200
			s.Forward().Commit()
			s.Forward().Publish()
		},
	} {
		mem, pool := goodSegments(t)
		conn := connectRaw(t, dir, "records")
		if _, _, err := conn.WriteMsgUnix(hello(mem, pool),
			syscall.UnixRights(int(mem.File().Fd()), int(pool.File().Fd())), nil); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 256)); n != 256 || err != nil {
			t.Fatalf("%s: welcomed with %d bytes, %v", what, n, err)
		}
		s, err := lane.OpenSender(mem.Body()[128:])
		if err != nil {
			t.Fatal(err)
		}
		spoil(s)
		receiveEnd(t, r, ipc.ErrProtocol)
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: the socket stays open", what)
		}
		if err := good.Send(within(t), []byte(what)); err != nil {
			t.Fatal(err)
		}
		receive(t, r, what)
	}
	if st := r.Stats(); st.Broken != 4 || st.Senders != 1 {
		t.Errorf("%+v", st)
	}
}

// A process that only looks like a receiver is refused by Dial, which doesn't wait for
// it longer than its context lasts.
func TestBadListeners(t *testing.T) {
	dir := newDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	board := segment(t, 'i'|'p'<<8|'c'<<16|'b'<<24, 128, nil)
	other := segment(t, kindLane, 128, nil)
	welcome := func(at int, word uint32) []byte {
		b := make([]byte, 256)
		copy(b, "discoipc")
		b[8], b[24] = 1, 128
		binary.LittleEndian.PutUint64(b[32:], board.ID())
		if at >= 0 {
			binary.LittleEndian.PutUint32(b[at:], word)
		}
		return b
	}
	file := []*os.File{board.File()}
	no := welcome(12, 7)
	copy(no[40:], "not today\x1b[2J")
	for what, c := range map[string]struct {
		packet []byte
		files  []*os.File
		want   error
		text   string
	}{
		"closes at once":      {nil, nil, ipc.ErrNoAnswer, ""},
		"refuses":             {no, nil, ipc.ErrRefused, "not today?[2J"},
		"no file":             {welcome(-1, 0), nil, ipc.ErrProtocol, "0 files"},
		"two files":           {welcome(-1, 0), append(file, file...), ipc.ErrProtocol, "2 files"},
		"another version":     {welcome(8, 9), file, ipc.ErrRefused, "version 9"},
		"another magic":       {welcome(0, 9), file, ipc.ErrProtocol, "starts with"},
		"a board too large":   {welcome(24, 4096), file, ipc.ErrProtocol, "4096"},
		"a board of other id": {welcome(32, 1), file, shm.ErrIdentity, ""},
		"no board":            {welcome(-1, 0), []*os.File{other.File()}, shm.ErrKind, ""},
	} {
		socket, err := net.ListenUnix("unixpacket",
			&net.UnixAddr{Name: filepath.Join(dir, "fake.sock"), Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		var fake sync.WaitGroup
		fake.Go(func() {
			conn, err := socket.AcceptUnix()
			if err != nil {
				return
			}
			defer conn.Close()
			rights := make([]byte, 256)
			_, n, _, _, _ := conn.ReadMsgUnix(make([]byte, 512), rights)
			if messages, err := syscall.ParseSocketControlMessage(rights[:n]); err == nil {
				for i := range messages {
					fds, _ := syscall.ParseUnixRights(&messages[i])
					for _, fd := range fds {
						syscall.Close(fd)
					}
				}
			}
			if c.packet == nil {
				return
			}
			var fds []int
			for _, f := range c.files {
				fds = append(fds, int(f.Fd()))
			}
			conn.WriteMsgUnix(c.packet, syscall.UnixRights(fds...), nil)
		})
		_, err = ipc.Dial(within(t), "fake", small(dir))
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", what, err, c.want, c.text)
		}
		socket.Close()
		fake.Wait()
	}
	silent, err := net.ListenUnix("unixpacket",
		&net.UnixAddr{Name: filepath.Join(dir, "silent.sock"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if _, err := silent.Accept(); err == nil {
			cancel()
		}
	}()
	if _, err := ipc.Dial(ctx, "silent", small(dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("a silent listener: %v, want the context's end", err)
	}
}
