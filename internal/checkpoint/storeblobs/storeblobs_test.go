// SPDX-License-Identifier: Apache-2.0

package storeblobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/disco-sim/disco/metastore/mem"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// open is a store of its own over a client, which the test may disturb.
func open(t *testing.T) (*metastore.Store, *mem.Client) {
	t.Helper()
	client := mem.NewServer(time.Second).NewClient()
	store, err := metastore.New(context.Background(), client, Options("places"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, client
}

func TestMem(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
		store, _ := open(t)
		return New(store, "part-7", "part 7", "a test")
	})
}

// engine is a real server of a store that the test starts.
type engine struct {
	url   string
	kill  func()
	start func(ctx context.Context) error
}

// engines starts a server of each kind.
func engines(t *testing.T, do func(ctx context.Context, t *testing.T, e engine)) {
	if testing.Short() {
		t.Skip("it starts servers")
	}
	t.Run("etcd", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		z, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
		storeserver.Need(t, err)
		t.Cleanup(z.Close)
		do(ctx, t, of("etcd", z.Addrs(), z.Servers[0], z.Servers[0].Ready))
	})
	t.Run("zk", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		o := storeserver.ZKOptions{Tick: 500 * time.Millisecond}
		z, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, o)
		storeserver.Need(t, err)
		t.Cleanup(z.Close)
		do(ctx, t, of("zk", z.Addrs(), z.Servers[0], z.Ready))
	})
}

// of is an engine's one server, which ready waits for.
func of(name string, addresses []string, server interface {
	Kill()
	Start() error
}, ready func(context.Context) error) engine {
	return engine{url: name + "://" + strings.Join(addresses, ","), kill: server.Kill,
		start: func(ctx context.Context) error {
			if err := server.Start(); err != nil {
				return err
			}
			return ready(ctx)
		}}
}

// TestEngines: the same over real servers.
func TestEngines(t *testing.T) {
	engines(t, func(ctx context.Context, t *testing.T, e engine) {
		n := 0
		checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
			n++
			store, err := dial.Open(ctx, dial.Options{URL: e.url, Store: Options("places")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return New(store, fmt.Sprint("place-", n), "place", "a test")
		})
	})
}

// TestOutage: a server is killed, and starts again when the writer's session is lost. Its lock goes with the session,
// and is taken again at the next write; a writer that another one has followed meanwhile writes nothing.
func TestOutage(t *testing.T) {
	engines(t, func(ctx context.Context, t *testing.T, e engine) {
		store, err := dial.Open(ctx, dial.Options{URL: e.url, TTL: 2 * time.Second, Store: Options("places")})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		p, late := New(store, "one", "one", "p"), New(store, "two", "two", "late")
		other := New(store, "two", "two", "other")
		var said []string
		p.Report = func(text string) { said = append(said, text) }
		late.Report = func(text string) { t.Error(text) }
		unlock, err := p.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := late.Lock(ctx); err != nil {
			t.Fatal(err)
		}
		session, err := store.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		e.kill()
		p.Quiet = 100 * time.Millisecond
		err = p.Put(ctx, "done/0", strings.NewReader("lost"), 4, false)
		if !errors.Is(err, metastore.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
		p.Quiet = QuietMax
		<-session.Lost()
		if err := e.start(ctx); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{p.lockKey(), late.lockKey()} { // a server that has come back waits once more
			gone := func() bool {
				there, err := store.Contains(ctx, key)
				return err == nil && !there
			}
			for ; !gone() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			}
		}
		if err := p.Put(ctx, "done/0", strings.NewReader("whole"), 5, false); err != nil || len(said) != 1 {
			t.Errorf("%v, %q, want that the lock is taken again, once", err, said)
		}
		if _, err := other.Lock(ctx); err != nil {
			t.Fatal(err)
		}
		err = late.Put(ctx, "done/0", strings.NewReader("late"), 4, false)
		if !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		got, err := p.Get(ctx, "done/0", 0, 10, nil)
		if err = errors.Join(err, unlock()); err != nil || string(got) != "whole" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// pieces are the numbers under which there are pieces.
func pieces(t *testing.T, p *Place) int {
	t.Helper()
	numbers, err := p.store.Members(context.Background(), p.key+"/data")
	if err != nil && !errors.Is(err, metastore.ErrNoNode) {
		t.Fatal(err)
	}
	return len(numbers)
}

// TestLarge: a blob of several pieces is read at every place and over their borders; one that takes its place leaves
// nothing of it, and one that is too large is refused before anything is written.
func TestLarge(t *testing.T) {
	ctx := context.Background()
	store, _ := open(t)
	p := New(store, "part", "part", "a test")
	data := bytes.Repeat([]byte("0123456789abcdefghi"), (2*PieceBytes+17)/19+1)[:2*PieceBytes+17]
	if err := p.Put(ctx, "packs/a", bytes.NewReader(data), int64(len(data)), true); err != nil {
		t.Fatal(err)
	}
	const size = int64(2*PieceBytes + 17)
	for _, c := range [][2]int64{{0, size}, {0, size + 5}, {PieceBytes - 1, 2}, {PieceBytes, 1}, {2*PieceBytes - 3, 20},
		{2 * PieceBytes, 17}, {size, 1}, {size + 9, 1}, {5, 0}} {
		from, end := min(c[0], size), min(c[0]+c[1], size)
		got, err := p.Get(ctx, "packs/a", c[0], c[1], make([]byte, 3, 100))
		if err != nil || !bytes.Equal(got, data[from:end]) {
			t.Errorf("%d bytes from %d: %d bytes, %v", c[1], c[0], len(got), err)
		}
	}
	if n := pieces(t, p); n != 1 {
		t.Errorf("%d sets of pieces, want 1", n)
	}
	if err := p.Put(ctx, "packs/a", strings.NewReader("b"), 1, false); err != nil || pieces(t, p) != 1 {
		t.Errorf("%v, %d sets of pieces, want 1", err, pieces(t, p))
	}
	var large *TooLargeError
	if err := p.Put(ctx, "packs/b", nil, BlobMax+1, false); !errors.As(err, &large) || pieces(t, p) != 1 {
		t.Errorf("%v, want *TooLargeError, and nothing written", err)
	}
}

// replacing is a place whose blob is replaced while it is read.
type replacing struct {
	io.Reader
	then func()
}

func (r *replacing) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if r.then != nil {
		r.then()
		r.then = nil
	}
	return n, err
}

// TestKilled: of a writer that ends between a piece and the head nothing is seen, what was there stays, and the next
// lock removes its pieces.
func TestKilled(t *testing.T) {
	store, _ := open(t)
	p := New(store, "part", "part", "a test")
	if err := p.Put(context.Background(), "done/0", strings.NewReader("whole"), 5, false); err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	data := strings.Repeat("x", PieceBytes+1)
	err := p.Put(ctx, "done/0", &replacing{strings.NewReader(data), kill}, int64(len(data)), false)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// A process that is killed removes nothing: its pieces are put there by hand.
	if err := store.Put(context.Background(), p.pieceKey(number(), 0), []byte("left")); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(context.Background(), "done/0", 0, 10, nil); string(got) != "whole" || err != nil {
		t.Errorf("%q, %v, want what was there", got, err)
	}
	unlock, err := p.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n := pieces(t, p); n != 1 {
		t.Errorf("%d sets of pieces behind a lock, want 1", n)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestLost: a writer whose session ends, so that another gets the lock, writes and deletes nothing more.
func TestLost(t *testing.T) {
	ctx := context.Background()
	store, client := open(t)
	p, other := New(store, "part", "part", "the first"), New(store, "part", "part", "the second")
	unlock, err := p.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(ctx, "done/0", strings.NewReader("whole"), 5, false); err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	if _, err := other.Lock(ctx); !errors.As(err, &locked) || locked.Owner != "the first" {
		t.Fatalf("%v, want *LockedError that names the first", err)
	}
	client.EndSession()
	if _, err := other.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(ctx, "done/0", strings.NewReader("late"), 4, false); !errors.Is(err, ErrLost) {
		t.Errorf("Put: %v, want ErrLost", err)
	}
	if err := p.Delete(ctx, "done/0"); !errors.Is(err, ErrLost) {
		t.Errorf("Delete: %v, want ErrLost", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if _, err := New(store, "part", "part", "the third").Lock(ctx); !errors.As(err, &locked) {
		t.Errorf("%v: the first one's end has taken the second one's lock", err)
	}
	if got, err := other.Get(ctx, "done/0", 0, 10, nil); string(got) != "whole" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTakenAgain: a writer whose session ends, and whose lock nobody else has had, or only somebody who has written
// nothing, takes it again and goes on, in the middle of a Put, too, and says so; what is given back then is the new
// one.
func TestTakenAgain(t *testing.T) {
	ctx := context.Background()
	store, client := open(t)
	p := New(store, "part", "part", "the first")
	said := 0
	p.Report = func(text string) {
		if said++; !strings.Contains(text, "taken again") {
			t.Error(text)
		}
	}
	unlock, err := p.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	put := func(then func()) {
		t.Helper()
		data := strings.Repeat("x", PieceBytes+1)
		r := &replacing{strings.NewReader(data), then} // between two pieces
		if err := p.Put(ctx, "done/0", r, int64(len(data)), false); err != nil {
			t.Fatal(err)
		}
		got, err := p.Get(ctx, "done/0", 0, int64(len(data)), nil)
		if err != nil || string(got) != data {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(data))
		}
	}
	put(client.EndSession)
	client.EndSession()
	if err := p.Delete(ctx, "done/0"); err != nil {
		t.Error(err)
	}
	client.EndSession()
	// Another one takes it, and is killed before it has written anything.
	if _, _, err := store.PutEphemeral(ctx, p.lockKey(), "the second"); err != nil {
		t.Fatal(err)
	}
	err = p.Put(ctx, "done/0", strings.NewReader("late"), 4, false)
	var locked *checkpoint.LockedError
	if !errors.Is(err, ErrLost) || !errors.As(err, &locked) || locked.Owner != "the second" {
		t.Errorf("%v, want ErrLost, and that the second has it", err)
	}
	client.EndSession()
	put(nil)
	if said != 3 {
		t.Errorf("it was said %d times that the lock was taken again, want 3", said)
	}
	if _, err := New(store, "part", "part", "the third").Lock(ctx); !errors.As(err, &locked) {
		t.Errorf("%v, want that the first one has the lock", err)
	}
	for range 2 {
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Put(ctx, "done/0", strings.NewReader("late"), 4, false); err != nil {
		t.Error(err) // without a lock, as before one was taken
	}
	if _, err := New(store, "part", "part", "the fourth").Lock(ctx); err != nil {
		t.Error(err)
	}
	if n := pieces(t, p); n != 1 {
		t.Errorf("%d sets of pieces behind a lock, want 1", n)
	}
}

// TestLostForGood: where another writer has had the lock, and has given it back or lost it, too, the first one's is
// lost, and its attempts keep nobody out.
func TestLostForGood(t *testing.T) {
	ctx := context.Background()
	store, client := open(t)
	p, other := New(store, "part", "part", "the first"), New(store, "part", "part", "the second")
	p.Report = func(text string) { t.Error(text) }
	if _, err := p.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	client.EndSession()
	unlock, err := other.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Put(ctx, "done/0", strings.NewReader("late"), 4, false); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		if there, err := store.Contains(ctx, p.lockKey()); there || err != nil {
			t.Errorf("%v, %v: a lock that was lost keeps others out", there, err)
		}
	}
}

// between is a backend in which something happens right before a lock is made.
type between struct {
	metastore.Backend
	then func()
}

func (b *between) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if then := b.then; then != nil && strings.HasSuffix(ops[0].Path, "/lock") && ops[0].Do == metastore.Create {
		b.then = nil
		then()
	}
	return b.Backend.Commit(ctx, conds, ops)
}

// TestLostBetween: where another writer has the lock, and gives it back, between the look at the mark and the lock that
// is taken again, the first one's is lost, and is given back at once.
func TestLostBetween(t *testing.T) {
	ctx := context.Background()
	client := mem.NewServer(time.Second).NewClient()
	backend := &between{Backend: client}
	store, err := metastore.New(ctx, backend, Options("places"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, other := New(store, "part", "part", "the first"), New(store, "part", "part", "the second")
	if _, err := p.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	client.EndSession()
	had := false
	backend.then = func() {
		unlock, err := other.Lock(ctx)
		if err == nil {
			err = unlock()
		}
		if had = err == nil; !had {
			t.Error(err)
		}
	}
	if err := p.Put(ctx, "done/0", strings.NewReader("late"), 4, false); !errors.Is(err, ErrLost) || !had {
		t.Errorf("%v, %v, want ErrLost behind the other one's lock", err, had)
	}
	if there, err := store.Contains(ctx, p.lockKey()); there || err != nil {
		t.Errorf("%v, %v: a lock that was lost keeps others out", there, err)
	}
}

// TestDamaged: what others have done to the store is an error that says so, and no wait.
func TestDamaged(t *testing.T) {
	ctx := context.Background()
	store, _ := open(t)
	p := New(store, "part", "part", "a test")
	if err := p.Put(ctx, "done/0", strings.NewReader("whole"), 5, false); err != nil {
		t.Fatal(err)
	}
	_, h, err := p.head(ctx, "done/0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{p.pieceKey(h.Number, 0), []byte("whol"), "a piece of 4 bytes, want 5"},
		{p.pieceKey(h.Number, 0), nil, "a piece of its 5 bytes is missing"},
		{p.nameKey("done/0"), head{h.Number, BlobMax + 1}, "size 268435457"},
		{p.nameKey("done/0"), head{"../../x", 5}, `number "../../x"`},
		{p.nameKey("done/0"), "text", "done/0"},
	} {
		if err = store.Delete(ctx, c.key); err == nil && c.value != nil {
			err = store.Put(ctx, c.key, c.value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, err := p.Get(ctx, "done/0", 0, 10, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %v, want %q", data, err, c.want)
		}
	}
}

// TestSilent: at a store that doesn't answer every call ends and says so, removes nothing that it can't know of, and
// what was there is whole when the store answers again. The lock ends with the session then.
func TestSilent(t *testing.T) {
	ctx := context.Background()
	store, client := open(t)
	p := New(store, "part", "part", "a test")
	if err := p.Put(ctx, "done/0", strings.NewReader("whole"), 5, false); err != nil {
		t.Fatal(err)
	}
	unlock, err := p.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.Quiet = 50 * time.Millisecond
	other := New(store, "other", "other", "a test")
	other.Quiet = p.Quiet
	silent := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, metastore.ErrUnavailable) || !strings.Contains(err.Error(), "hasn't answered for 50ms") {
			t.Errorf("%s: %v, want ErrUnavailable that says for how long", what, err)
		}
	}
	// It falls silent when the first of two pieces is there.
	data := strings.Repeat("x", PieceBytes+1)
	parts := io.MultiReader(strings.NewReader(data[:PieceBytes]),
		&replacing{strings.NewReader(data[PieceBytes:]), client.Disconnect})
	silent("Put, of pieces", p.Put(ctx, "done/0", parts, int64(len(data)), false))
	_, err = p.Get(ctx, "done/0", 0, 10, nil)
	silent("Get", err)
	_, err = p.List(ctx, "done/")
	silent("List", err)
	silent("Put", p.Put(ctx, "done/0", strings.NewReader("late"), 4, false))
	silent("Put, only new", p.Put(ctx, "done/0", strings.NewReader("late"), 4, true))
	silent("Put, of a head", p.Put(ctx, "done/0", strings.NewReader(""), 0, false))
	silent("Delete", p.Delete(ctx, "done/0"))
	_, err = other.Lock(ctx)
	silent("Lock", err)
	silent("unlock", unlock())
	client.Reconnect()
	client.EndSession()
	if got, err := p.Get(ctx, "done/0", 0, 10, nil); string(got) != "whole" || err != nil {
		t.Errorf("%q, %v, want what was there", got, err)
	}
	if n := pieces(t, p); n != 2 {
		t.Errorf("%d sets of pieces, want the one of a head and the one that couldn't be removed", n)
	}
	for _, p := range []*Place{p, other} {
		if unlock, err = p.Lock(ctx); err != nil {
			t.Fatal(err)
		} else if err := unlock(); err != nil {
			t.Error(err)
		}
	}
	if n := pieces(t, p); n != 1 {
		t.Errorf("%d sets of pieces behind a lock, want 1", n)
	}
}

// TestUnknown: what nobody knows the outcome of is done again until that is known, or the store takes too long.
func TestUnknown(t *testing.T) {
	store, _ := open(t)
	p := New(store, "part", "part", "a test")
	p.Quiet = 50 * time.Millisecond
	tries := 0
	err := p.call(context.Background(), func(context.Context) error {
		if tries++; tries < 3 {
			return metastore.ErrUnknown
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%v, %d tries, want 3", err, tries)
	}
	err = p.call(context.Background(), func(context.Context) error { return metastore.ErrUnknown })
	if !errors.Is(err, metastore.ErrUnavailable) || !errors.Is(err, metastore.ErrUnknown) {
		t.Errorf("%v, want both errors", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = p.call(ctx, func(context.Context) error {
		cancel()
		return metastore.ErrUnknown
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's", err)
	}
}
