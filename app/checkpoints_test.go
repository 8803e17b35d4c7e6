// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/state"
)

// stores are directories with checkpoints that the script checkpoints.txt finds: of a run, of another one that differs
// in node 2, with a pack of which a bit is flipped, with a manifest that is cut short, with a pack that is longer and a
// label of no checkpoint, without anything, and of a run with many replications.
var stores = []string{"warm", "other", "flipped", "cut", "grown", "none", "many"}

// storedNode is what a checkpoint of a store has of a node of tiny: it was called at now, and has handled so many
// events. An event of the node before it, and a wakeup, wait for it.
func storedNode(t *testing.T, n uint32, now float64, handled uint64) (own, pending []byte) {
	t.Helper()
	block := func(version uint32, fields func(c *state.Codec)) []byte {
		b, err := state.Append(nil, version, fields)
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	hash, floor, floors := handled*0x9e3779b97f4a7c15, 0.0, uint32(0)
	own = append(block(1, func(c *state.Codec) {
		c.Float(&now)
		c.Uint64(&handled)
		c.Uint64(&hash)
		c.Float(&floor)
		c.Uint32(&floors)
	}), block(2, func(c *state.Codec) {
		name := "tokens handled so far"
		c.String(&name)
		c.Uint64(&handled)
	})...)
	entries, wakeup := uint32(2), ^uint32(0)
	sender, first, second, headers := (n+3)%4, now+1, now+1.5, []byte(nil)
	data := []byte("token")
	pending = block(1, func(c *state.Codec) {
		c.Uint32(&entries)
		c.Float(&first)
		c.Uint32(&sender)
		c.Uint64(&handled)
		c.Bytes(&headers)
		c.Bytes(&data)
		c.Float(&second)
		c.Uint32(&wakeup)
	})[4:]
	return own, pending
}

// commitStored makes a checkpoint; more is what node 2 has handled beside.
func commitStored(t *testing.T, r *checkpoint.Repo, m checkpoint.Manifest, more uint64) {
	t.Helper()
	var file bytes.Buffer
	spool := checkpoint.NewSpool(&file)
	d := r.Begin()
	var chunks []checkpoint.Chunk
	add := func(c checkpoint.Chunk, data []byte) {
		c, err := spool.Add(c, data)
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	for first := uint32(0); first < 4 && !m.Finished; first += 2 {
		var nodes, pending []byte
		for n := first; n < first+2; n++ {
			handled := uint64(10*m.Epoch) + uint64(n)
			if n == 2 {
				handled += more
			}
			own, waits := storedNode(t, n, m.Epoch-0.5, handled)
			nodes, pending = checkpoint.AppendNode(nodes, int(n), own), checkpoint.AppendNode(pending, int(n), waits)
		}
		add(checkpoint.Chunk{Kind: checkpoint.Nodes, First: first, Nodes: 2}, nodes)
		add(checkpoint.Chunk{Kind: checkpoint.Pending, First: first, Nodes: 2}, pending)
	}
	if m.Finished {
		add(checkpoint.Chunk{Kind: checkpoint.Results}, []byte("results"))
	}
	m.Events = uint64(40*m.Epoch) + more
	m.Activations = m.Events + 4
	m.TraceHash = checkpoint.ID{byte(m.Epoch * 10), byte(m.Replication), byte(more)}
	m.Versions = []checkpoint.Version{{Handler: "*launchtest.handler", Version: 2}}
	m.Wall = checkpoint.Wall{Written: "2026-11-23T12:00:00Z", Pause: 0.012}
	if err := d.Add(bytes.NewReader(file.Bytes()), spool.Size(), chunks); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(context.Background(), &m); err != nil {
		t.Fatal(err)
	}
}

// makeStore makes the checkpoints of a run of 4 nodes.
func makeStore(t *testing.T, path string, id byte, replications int, more uint64) {
	t.Helper()
	ctx := context.Background()
	r, err := checkpoint.Create(ctx, checkpoint.NewDir(path), checkpoint.Run{ID: checkpoint.ID{id}, Disco: "v0-test",
		Kind: "tiny", File: "tiny.yml", Text: []byte(files["tiny.yml"]), Seed: 7, Replications: replications,
		Horizon: 5, Graph: checkpoint.Digest{0xab}, Nodes: 4, Simprocs: 4, GroupNodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []checkpoint.Manifest{{Epoch: 1}, {Epoch: 2.5}, {Epoch: 4}, {Epoch: 5, Finished: true},
		{Epoch: 1, Replication: 1}, {Epoch: 2.5, Replication: 1}} {
		if p.Replication < replications {
			commitStored(t, r, p, more)
		}
	}
	m, err := r.Find(ctx, "2.5", 0)
	if err == nil {
		err = r.Label(ctx, m, "warm")
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}

// makeStores makes the directories of stores.
func makeStores(t *testing.T, dir string) {
	t.Helper()
	makeStore(t, filepath.Join(dir, "warm"), 1, 3, 0)
	makeStore(t, filepath.Join(dir, "other"), 2, 1, 100)
	makeStore(t, filepath.Join(dir, "flipped"), 1, 3, 0)
	makeStore(t, filepath.Join(dir, "cut"), 1, 3, 0)
	makeStore(t, filepath.Join(dir, "grown"), 1, 3, 0)
	makeStore(t, filepath.Join(dir, "many"), 3, 100_000, 0)
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o777); err != nil {
		t.Fatal(err)
	}
	points, err := filepath.Glob(filepath.Join(dir, "cut", "points", "000000-*.json"))
	if err != nil || len(points) != 3 {
		t.Fatalf("manifests %q, %v", points, err)
	}
	if err := os.Truncate(points[1], 300); err != nil {
		t.Fatal(err)
	}
	changeFile(t, filepath.Join(dir, "flipped", "packs"), func(text []byte) []byte {
		text[40] ^= 4
		return text
	})
	changeFile(t, filepath.Join(dir, "grown", "packs"), func(text []byte) []byte { return append(text, "junk\n"...) })
	for _, point := range points { // those of the label
		if name := filepath.Base(point); strings.HasSuffix(name, "-4004000000000000.json") {
			for _, name := range []string{name, strings.Replace(name, "000000-", "000001-", 1)} {
				if err := os.Remove(filepath.Join(dir, "grown", "points", name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// changeFile changes the first file of a folder.
func changeFile(t *testing.T, folder string, change func([]byte) []byte) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, entries[0].Name())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestLockedStore: what writes is refused while a run does, and says which process it is; what reads isn't.
func TestLockedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warm")
	makeStore(t, dir, 1, 3, 0)
	r, err := checkpoint.Open(context.Background(), checkpoint.NewDir(dir))
	if err == nil {
		err = r.Lock(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, test := range []struct {
		args   string
		status int
	}{{"prune", 1}, {"label", 1}, {"unlabel", 1}, {"list", 0}, {"verify", 0}, {"show", 0}} {
		args := []string{"disco-run", "checkpoints", test.args, dir}
		if strings.HasSuffix(test.args, "label") {
			args = append(args, "warm")
		}
		var stdout, stderr bytes.Buffer
		status := Run(args, strings.NewReader(""), &stdout, &stderr, launchtest.Kind())
		if status != test.status || (status == 1) != strings.Contains(stderr.String(), "writes to it") {
			t.Errorf("%s: status %d, want %d: %s", test.args, status, test.status, stderr.String())
		}
	}
}

// TestStoreErrors: what the command line has wrong ends with status 2, and damage doesn't.
func TestStoreErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
	}{
		{&fs.PathError{Op: "open", Path: "warm/run.json", Err: fs.ErrPermission}, ExitUsage},
		{&checkpoint.NotRepoError{Where: "warm"}, ExitUsage},
		{&checkpoint.OtherRunError{Where: "warm", Name: "points/x", Found: &checkpoint.Run{}}, ExitFailed},
		{&checkpoint.DamagedError{Where: "warm", Name: "run.json", Err: errors.New("found 3 bytes")}, ExitFailed},
		{&checkpoint.LockedError{Where: "warm"}, ExitFailed},
	} {
		if status := statusOf(storeError(test.err)); status != test.status {
			t.Errorf("%v: status %d, want %d", test.err, status, test.status)
		}
	}
}
