// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/outfile"
)

const (
	copyBytes   = 256 << 10 // of a blob under way
	dirNamesMax = 4 << 20   // of a directory: 100,000 replications with 40 checkpoints each
)

// Dir is Blobs in a directory. Each file is made without a name, or with one that begins with a dot, and gets its name
// when its bytes are durable; then the directory is made durable. Goroutines may share it.
type Dir struct {
	path     string
	namesMax int // dirNamesMax, and less in tests

	step func(step, name string) error // SetStep; nil: nothing
}

// NewDir is the directory at path. It is made when something is written.
func NewDir(path string) *Dir { return &Dir{path: path, namesMax: dirNamesMax} }

// String is the directory's path.
func (d *Dir) String() string { return d.path }

// SetStep has f called in front of each step of writing; its error ends the step. It is for tests that kill a process
// there, and called before the directory is used.
func (d *Dir) SetStep(f func(step, name string) error) { d.step = f }

func (d *Dir) at(step, name string) error {
	if d.step == nil {
		return nil
	}
	return d.step(step, name)
}

// file is the path of a blob.
func (d *Dir) file(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// makeDir makes the directory that a path is to be in, durably.
func (d *Dir) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := d.at("mkdir", dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return outfile.Error(dir, err)
	}
	return outfile.SyncDir(filepath.Dir(dir))
}

// Put implements Blobs.
func (d *Dir) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	path := d.file(name)
	if err := d.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := d.at("create", name); err != nil {
		return err
	}
	out, err := outfile.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := d.write(ctx, out, name, r, size); err != nil {
		return err
	}
	if err := d.at("sync", name); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := d.at("name", name); err != nil {
		return err
	}
	commit := out.Commit
	if onlyNew {
		commit = out.CommitNew
	}
	if err := commit(); errors.Is(err, fs.ErrExist) {
		return ErrExists
	} else if err != nil {
		return err
	}
	if err := d.at("sync folder", name); err != nil {
		return err
	}
	return outfile.SyncDir(filepath.Dir(path))
}

// write copies size bytes.
func (d *Dir) write(ctx context.Context, out *outfile.File, name string, r io.Reader, size int64) error {
	buf := make([]byte, min(size, copyBytes))
	for left := size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(left, copyBytes)]
		if _, err := io.ReadFull(r, part); err != nil {
			return fmt.Errorf("checkpoint: %s/%s: %d bytes before the end of what is to be written: %w",
				d.path, name, left, err)
		}
		if err := d.at("write", name); err != nil {
			return err
		}
		if _, err := out.Write(part); err != nil {
			return outfile.Error(d.file(name), err)
		}
		left -= int64(len(part))
	}
	return nil
}

// Get implements Blobs.
func (d *Dir) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// O_NONBLOCK: a named pipe is refused below, and not waited for.
	f, err := os.OpenFile(d.file(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, &MissingError{d.path, name}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readPart(f, d.path, name, from, size, buf)
}

// readPart is Get of an open file.
func readPart(f *os.File, where, name string, from, size int64, buf []byte) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &DamagedError{Where: where, Name: name, Err: errors.New("found no regular file, want one")}
	}
	size = max(0, min(size, info.Size()-from))
	data := slices.Grow(buf[:0], int(size))[:size]
	n, err := f.ReadAt(data, from)
	if errors.Is(err, io.EOF) {
		err = nil // somebody has made it shorter since Stat
	}
	return data[:n], err
}

// List implements Blobs. What has a temporary file's name is left out.
func (d *Dir) List(ctx context.Context, prefix string) (blobs []Blob, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if prefix != "" {
		blobs, err = d.listFolder(prefix)
	} else if blobs, err = d.listFolder(""); err == nil {
		for _, folder := range folders {
			at := slices.IndexFunc(blobs, func(b Blob) bool { return b.Name == folder })
			if at < 0 {
				continue
			}
			inside, err := d.listFolder(folder)
			if err != nil {
				return nil, err
			}
			blobs = slices.Replace(blobs, at, at+1, inside...)
		}
	}
	slices.SortFunc(blobs, func(a, b Blob) int { return cmp.Compare(a.Name, b.Name) })
	return blobs, err
}

// listFolder lists a folder, which is empty or ends in a slash.
func (d *Dir) listFolder(folder string) (blobs []Blob, err error) {
	entries, err := d.entries(folder)
	for _, e := range entries {
		if temporary(e.Name()) {
			continue
		}
		if e.IsDir() {
			blobs = append(blobs, Blob{Name: folder + e.Name() + "/"})
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, Blob{folder + e.Name(), info.Size()})
	}
	return blobs, err
}

// entries reads a folder; none where there is no folder.
func (d *Dir) entries(folder string) ([]fs.DirEntry, error) {
	f, err := os.Open(d.file(folder))
	if errors.Is(err, fs.ErrNotExist) {
		if link, err := os.Readlink(d.path); err == nil && folder == "" {
			return nil, fmt.Errorf("checkpoint: %s: found a link to %s, which isn't there, want a directory, or a "+
				"name that is free", d.path, link)
		}
		return nil, nil
	}
	if err != nil {
		return nil, d.noDirectory(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(d.namesMax + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(entries) > d.namesMax {
		return nil, fmt.Errorf("checkpoint: %s/%s has more than %d files: remove some, or name another directory",
			d.path, folder, d.namesMax)
	}
	return entries, d.noDirectory(err)
}

// noDirectory says what to do where something that is no directory is in its place.
func (d *Dir) noDirectory(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("checkpoint: %s: found something that is no directory, want one, or a name that is free",
			d.path)
	}
	return err
}

// temporaryName is that of outfile's files that are being written.
var temporaryName = regexp.MustCompile(`^\..+\.[0-9a-f]{16}\.tmp$`)

func temporary(name string) bool { return temporaryName.MatchString(name) }

// Delete implements Blobs.
func (d *Dir) Delete(ctx context.Context, names ...string) error {
	var dirs []string
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.at("delete", name); err != nil {
			return err
		}
		path := d.file(name)
		if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if err := d.at("sync folder", dir); err != nil {
			return err
		}
		if err := outfile.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
