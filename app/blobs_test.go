// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
)

// memPlace is what an object store is in these tests.
type memPlace struct{ *checkpointtest.Mem }

func (memPlace) Close() {}

// slowPlace takes its time to be reached, and to give a lock back.
type slowPlace struct{ memPlace }

const slowPlaceTakes = 500 * time.Millisecond

func (p slowPlace) Lock(ctx context.Context) (func() error, error) {
	unlock, err := p.memPlace.Lock(ctx)
	return func() error {
		time.Sleep(slowPlaceTakes)
		return unlock()
	}, err
}

// serverAddress is how addresses begin of what is at a server of an object store, which a test has started.
const serverAddress = "s3://checkpoints/"

// serveBlobs is the process that reaches it.
func serveBlobs() {
	// A third and a fifth of what the programs have: servers that are gone, and locks of the dead, are waited for.
	const quiet, freeAfter = 10 * time.Second, 12 * time.Second
	control, err := blobproc.Inherit()
	if err == nil {
		err = blobproc.Serve(control, func(ctx context.Context, address, owner string) (blobproc.Place, error) {
			if strings.HasPrefix(address, serverAddress) {
				return s3.Open(ctx, address, s3.Config{Getenv: os.Getenv, Owner: owner, Quiet: quiet,
					FreeAfter: freeAfter})
			}
			if address == "s3://bucket/slow" {
				time.Sleep(slowPlaceTakes)
				return slowPlace{memPlace{checkpointtest.NewMem()}}, nil
			}
			if address != "s3://bucket/x" {
				return nil, errors.New(address + ": want another one, " + owner)
			}
			return memPlace{checkpointtest.NewMem()}, nil
		})
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestOpenBlobsBeside: an object store is reached by the program that has the command for it, which may refuse it, or
// not be there.
func TestOpenBlobsBeside(t *testing.T) {
	var told strings.Builder
	p := &program{stderr: &told, further: []Command{{Name: blobproc.Command}}}
	b, end, err := p.openBlobs(t.Context(), "s3://bucket/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "run.json", strings.NewReader("x"), 1, true); err != nil || b.String() != "mem" {
		t.Errorf("%v: %v", b, err)
	}
	if err := end(); err != nil || told.Len() > 0 {
		t.Errorf("%v, %q", err, &told)
	}
	_, _, err = p.openBlobs(t.Context(), "s3://other")
	var wrong *usageError
	if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.text, "s3://other: want another one, process") {
		t.Errorf("%v, want what the program refuses", err)
	}
	p.further[0].Program = "no-such-program"
	if _, _, err := p.openBlobs(t.Context(), "s3://other"); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("%v, want how to get the program", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.further[0].Program = ""
	if _, _, err := p.openBlobs(ctx, "s3://bucket/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's", err)
	}
}

// What takes long with a store while there is no run is said: reaching it, and giving its lock back.
func TestSlowBlobs(t *testing.T) {
	defer func(was time.Duration) { slow = was }(slow)
	slow = 20 * time.Millisecond
	for form, want := range map[string][2]string{
		progressLine: {"disco-run: reaching s3://bucket/slow …\n", "disco-run: giving the lock of mem back …\n"},
		progressJSON: {`{"event":"doing","text":"reaching s3://bucket/slow"}` + "\n",
			`{"event":"doing","text":"giving the lock of mem back"}` + "\n"},
		progressOff: {},
	} {
		var told strings.Builder
		p := &program{name: "disco-run", stderr: io.Discard, terminal: newOutlet(&told), progress: form,
			further: []Command{{Name: blobproc.Command}}}
		s := &saving{address: "s3://bucket/slow"}
		end, err := s.open(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if told.String() != want[0] {
			t.Errorf("%s: found %q, want %q", form, told.String(), want[0])
		}
		told.Reset()
		s.repo, err = checkpoint.Create(t.Context(), s.blobs, checkpoint.Run{Disco: "test", Kind: "k",
			Text: []byte("k"), Replications: 1, Horizon: 10, Nodes: 1, Simprocs: 1, GroupNodes: 1})
		if err := errors.Join(err, end()); err != nil {
			t.Fatal(err)
		}
		if told.String() != want[1] {
			t.Errorf("%s: found %q, want %q", form, told.String(), want[1])
		}
	}
}

// TestOpenBlobs: a directory is opened; what can't be is refused with what is allowed.
func TestOpenBlobs(t *testing.T) {
	p := &program{}
	dir := filepath.Join(t.TempDir(), "new")
	b, end, err := p.openBlobs(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(context.Background(), "run.json", strings.NewReader("x"), 1, true)
	if err != nil || b.String() != dir {
		t.Errorf("%v: %v", b, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	for address, want := range map[string]string{
		"":               "want a directory",
		"ftp://host/dir": "ftp://host/dir: found an address that begins with ftp://, want a directory",
		"s3://bucket/x":  "s3://bucket/x: this program can't reach stores: want beside.Commands() in its main",
	} {
		if _, _, err := p.openBlobs(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}
