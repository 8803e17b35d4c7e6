// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/outfile"
)

const (
	ownerBytes = 256 // of the text in the lock
	lockTries  = 100 // of Lock, where others remove meanwhile what they have made
)

// Lock implements Blobs: with flock, which ends with the process. What a writer that was killed has left under a
// temporary name is removed: nobody else writes now. Where there is no run when the lock is given back, all that Lock
// has made is removed, and so are empty folders.
func (d *Dir) Lock(context.Context) (unlock func() error, err error) {
	for range lockTries {
		made := d.missing()
		var f *os.File
		if err = d.makeDir(d.path); err == nil {
			f, err = d.lock()
		}
		if errors.Is(err, fs.ErrNotExist) { // others have removed since what they had made
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := d.sweep(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return func() error {
			d.vacate(f, made)
			return f.Close()
		}, nil
	}
	return nil, err
}

// missing are the directories that makeDir has to make for this one, the deepest first.
func (d *Dir) missing() (dirs []string) {
	for dir := filepath.Clean(d.path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dirs
		}
		dirs = append(dirs, dir)
	}
}

// lock opens and locks the lock's file; fs.ErrNotExist where that isn't the one that others see.
func (d *Dir) lock() (*os.File, error) {
	path := d.file(lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, outfile.Error(path, err)
	}
	if err := d.at("lock", lockName); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s can't be locked: %w", path, err)
		}
		owner := make([]byte, ownerBytes)
		n, _ := f.ReadAt(owner, 0) // none: the owner is just writing it
		return nil, &LockedError{d.path, strings.TrimSpace(string(owner[:n]))}
	}
	if !isAt(f, path) {
		return nil, errors.Join(outfile.Error(path, fs.ErrNotExist), f.Close())
	}
	host, _ := os.Hostname() // empty: a message says less
	owner := fmt.Sprintf("process %d on %s", os.Getpid(), host)
	// A full disk has no room for the text, which is only for messages.
	if f.Truncate(0) == nil {
		f.WriteString(owner[:min(len(owner), ownerBytes)] + "\n")
	}
	return f, nil
}

// isAt reports whether a file is the one at a path.
func isAt(f *os.File, path string) bool {
	is, err := f.Stat()
	at, errAt := os.Stat(path)
	return err == nil && errAt == nil && os.SameFile(is, at)
}

// vacate removes empty folders, the lock that f holds, and the directories that Lock has made, where there is no run:
// as far as possible, since what stays is in nobody's way. What is in folders is of a run whose run.json is gone: then
// all stays.
func (d *Dir) vacate(f *os.File, made []string) {
	gone := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	if _, err := os.Lstat(d.file(runName)); !gone(err) || !isAt(f, d.file(lockName)) {
		return
	}
	for _, folder := range folders {
		if err := os.Remove(d.file(folder)); err != nil && !gone(err) {
			return
		}
	}
	// While it is locked: who waits for it sees that it is another one than that at its path.
	if os.Remove(d.file(lockName)) != nil {
		return
	}
	for _, dir := range made {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// sweep removes temporary files.
func (d *Dir) sweep() error {
	for _, folder := range append([]string{""}, folders...) {
		entries, err := d.entries(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if temporary(e.Name()) && e.Type().IsRegular() {
				if err := os.Remove(d.file(folder + e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	return nil
}
