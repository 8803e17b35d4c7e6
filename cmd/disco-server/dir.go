// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	etcd "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

const (
	// spaceMin is what etcd's log takes before anything is stored: two pieces of 64 MB, made in advance; and some more.
	// A folder that has them already needs spaceAgain.
	spaceMin   = 160 << 20
	spaceAgain = 32 << 20
	noteName   = "disco-server.json"
	noteMax    = 4096
)

var etcdVersion = etcd.Version

// note is what a server remembers beside etcd's own files, in DIR/disco-server.json.
type note struct {
	Format int    `json:"format"`
	Etcd   string `json:"etcd"`   // version that wrote the folder last
	Listen string `json:"listen"` // for clients
	Peer   string `json:"peer"`   // for the other servers
	Token  string `json:"token"`  // random: no two stores have the same cluster id, wherever they were started
	Joined bool   `json:"joined"` // it was not the first
}

// folder is a server's --data, locked.
type folder struct {
	path string
	note note
	old  bool // etcd has written there before
	lock *os.File
}

// openFolder makes sure that the folder is there, ours, and nobody else's now.
func openFolder(o *options) (*folder, error) {
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return nil, fmt.Errorf("--data %s: %w: choose a folder that can be made", o.data, err)
	}
	d := &folder{path: o.data}
	if err := d.foreign(); err != nil {
		return nil, err
	}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.space(), d.read(o)); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// foreign refuses a folder that holds something else.
func (d *folder) foreign() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("--data %s: %w", d.path, err)
	}
	noted := false
	for _, e := range entries {
		noted = noted || e.Name() == noteName
	}
	for _, e := range entries {
		switch {
		case noted || e.Name() == "lock" || strings.HasPrefix(e.Name(), noteName):
		case e.Name() == "member":
			return fmt.Errorf("--data %s was written by an etcd, not by disco-server: start that etcd, "+
				"or choose another folder", d.path)
		default:
			return fmt.Errorf("--data %s holds other things (%s): choose a folder of its own", d.path, e.Name())
		}
	}
	return nil
}

// acquire takes the folder's lock, which the kernel frees when this process ends.
func (d *folder) acquire() (err error) {
	d.lock, err = os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("--data %s can't be written to: %w: mend its permissions", d.path, err)
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 32)
		n, _ := d.lock.Read(holder)
		d.close()
		return fmt.Errorf("--data %s is in use by another disco-server (process %s): end that one, "+
			"or choose another folder", d.path, strings.TrimSpace(string(holder[:n])))
	}
	if err = d.lock.Truncate(0); err == nil {
		_, err = fmt.Fprintln(d.lock, os.Getpid())
	}
	if err != nil {
		d.close()
		return fmt.Errorf("--data %s can't be written to: %w", d.path, err)
	}
	return nil
}

func (d *folder) close() { _ = d.lock.Close() }

// space refuses a disk that is nearly full: etcd would stop in the middle.
func (d *folder) space() error {
	least := uint64(spaceMin)
	if d.begun() {
		least = spaceAgain
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.path, &st); err != nil {
		return fmt.Errorf("--data %s: %w", d.path, err)
	}
	if left := st.Bavail * uint64(st.Bsize); left < least {
		return fmt.Errorf("--data %s: its disk has %d MB left, a store needs at least %d MB: make room "+
			"or choose another folder", d.path, left>>20, least>>20)
	}
	return nil
}

// read reads the note, or makes one.
func (d *folder) read(o *options) error {
	name := filepath.Join(d.path, noteName)
	d.old = d.begun()
	text, err := readFile(name, noteMax)
	if errors.Is(err, fs.ErrNotExist) {
		d.note = note{Format: 1, Etcd: etcdVersion, Token: rand.Text(), Joined: len(o.join) > 0}
		return d.choose(o)
	}
	if err != nil {
		return fmt.Errorf("--data %s: %w", d.path, err)
	}
	if err := json.Unmarshal(text, &d.note); err != nil {
		return fmt.Errorf("%s is damaged (%w): restore it, or empty the folder and join the others again", name, err)
	}
	if d.note.Format != 1 {
		return fmt.Errorf("%s has format %d, this disco-server knows format 1: use the disco-server that wrote it",
			name, d.note.Format)
	}
	if err := compatible(d.note.Etcd); err != nil {
		return fmt.Errorf("--data %s: %w", d.path, err)
	}
	if d.old && !d.note.Joined && neverServed(d.path) {
		if err := os.RemoveAll(filepath.Join(d.path, "member")); err != nil {
			return fmt.Errorf("--data %s: its first start was broken off, and what it left can't be removed: %w", d.path, err)
		}
		d.old = false
	}
	if d.note.Joined && !d.old && len(o.join) == 0 {
		return fmt.Errorf("--data %s: joining others was begun and not ended: start it with --join again", d.path)
	}
	return d.choose(o)
}

// neverServed tells whether a first server was ended before its log had an entry: etcd would wait for ever for the members
// that the first entries name. Nothing can have been written by then.
func neverServed(path string) bool {
	logs := filepath.Join(path, "member", "wal")
	snapshots, err := filepath.Glob(filepath.Join(path, "member", "snap", "*.snap"))
	_, first := os.Stat(filepath.Join(logs, "0000000000000000-0000000000000000.wal"))
	if err != nil || len(snapshots) > 0 || first != nil {
		return false
	}
	w, err := wal.OpenForRead(zap.NewNop(), logs, &walpb.Snapshot{})
	if err != nil {
		return false
	}
	defer w.Close()
	_, _, entries, err := w.ReadAll()
	return len(entries) == 0 && (err == nil || errors.Is(err, io.ErrUnexpectedEOF))
}

// compatible compares the version of etcd that wrote a folder with this one's: it may be one minor version older.
func compatible(wrote string) error {
	major, its, err := minor(wrote)
	ourMajor, ours, ourErr := minor(etcdVersion)
	switch {
	case err != nil || ourErr != nil:
		return fmt.Errorf("it was written by etcd %q, which is no version", wrote)
	case major != ourMajor || its > ours || its < ours-1:
		return fmt.Errorf("it was written by etcd %s, and this disco-server has %s: use one that has etcd %d.%d",
			wrote, etcdVersion, major, its)
	}
	return nil
}

// choose settles the addresses: those of the command line, and those that were chosen at the first start.
func (d *folder) choose(o *options) error {
	host, port, _ := net.SplitHostPort(o.listen)
	if port != "0" {
		d.note.Listen = o.listen
	} else if d.note.Listen == "" {
		listen, err := choosePort(host, 0, "")
		if err != nil {
			return fmt.Errorf("--listen %s: %w", o.listen, err)
		}
		d.note.Listen = listen
	}
	if err := free(d.note.Listen); err != nil {
		return fmt.Errorf("--listen %s: %w: end what listens there, or choose another port (a disco-server also takes the "+
			"one after its --listen, for other servers: on one machine choose every other port)", d.note.Listen, err)
	}
	if d.note.Peer == "" {
		_, port, _ = net.SplitHostPort(d.note.Listen)
		n, _ := strconv.Atoi(port)
		peer, err := choosePort(host, n+1, d.note.Listen)
		if err != nil {
			return fmt.Errorf("--listen %s: %w", o.listen, err)
		}
		d.note.Peer = peer
	}
	if err := free(d.note.Peer); err != nil {
		return fmt.Errorf("%s, the address at which the other servers know this one: %w: end what listens there",
			d.note.Peer, err)
	}
	return d.write()
}

// write puts the note down such that either the former one or this one is there, whatever happens.
func (d *folder) write() error {
	text, err := json.Marshal(d.note)
	if err != nil {
		return err
	}
	name := filepath.Join(d.path, noteName)
	err = func() error {
		f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(append(text, '\n'))
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		return os.Rename(name+".new", name)
	}()
	if err != nil {
		return fmt.Errorf("--data %s can't be written to: %w", d.path, err)
	}
	return nil
}
