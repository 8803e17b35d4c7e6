// SPDX-License-Identifier: Apache-2.0

// Package outfile writes files that appear whole or not at all, and temporary files that no
// way of dying leaves behind.
//
// Guarantee: a process that is killed while it writes leaves what stood at the path before,
// and nothing else, on file systems with unnamed files (O_TMPFILE); on others at most a file
// whose name begins with a dot. What isn't a regular file is never replaced.
//
//	out, err := outfile.Create(path)
//	// ... write to out; out.Abort() after an error
//	err = out.Commit()
package outfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// File is a file that appears whole or not at all: it is written without a name
// and gets its name in Commit. A process that is killed while it writes leaves
// nothing behind. One goroutine uses it.
//
// Something that exists and isn't a regular file (a pipe, a terminal, /dev/null) is
// written to directly, because there is nothing to replace.
type File struct {
	path   string // as the caller gave it, for messages
	final  string // where the file will stand, symbolic links resolved
	temp   string // name of the temporary file, empty where it has none
	file   *os.File
	direct bool
}

// Check finds out, before any work is done, whether a file could be written at
// path. It leaves nothing there.
func Check(path string) error {
	o, info, err := locate(path)
	if err != nil {
		return err
	}
	if o.direct {
		return nil // opening a pipe twice would end its reader
	}
	if err := o.create(info); err != nil {
		return err
	}
	o.Abort()
	return nil
}

// Create begins a file that will stand at path.
func Create(path string) (*File, error) {
	o, info, err := locate(path)
	if err != nil {
		return nil, err
	}
	if o.direct {
		// Opening a named pipe without a reader would block, and nothing could end that.
		o.file, err = os.OpenFile(o.final, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENXIO) {
			return nil, fmt.Errorf("%s: found a named pipe that nobody reads, want a file, or a reader that is "+
				"there first", path)
		}
		if err != nil {
			return nil, Error(path, err)
		}
		return o, nil
	}
	if err := o.create(info); err != nil {
		return nil, err
	}
	return o, nil
}

// locate finds out what stands at path: info is nil where nothing does. Something
// that may not be written is an error even where its directory would let us replace
// it: a read-only file is one that is to be left alone.
func locate(path string) (o *File, info os.FileInfo, err error) {
	o = &File{path: path, final: path}
	if err := checkLink(path); err != nil {
		return nil, nil, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		o.final = target
	}
	info, err = os.Stat(o.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil, nil
	case err != nil:
		return nil, nil, Error(path, err)
	case info.IsDir():
		return nil, nil, fmt.Errorf("%s is a directory, want the name of a file", path)
	}
	if err := unix.Access(o.final, unix.W_OK); err != nil {
		return nil, nil, Error(path, err)
	}
	if info.Mode().Type() == fs.ModeSocket {
		return nil, nil, fmt.Errorf("%s is a socket, want the name of a file", path)
	}
	o.direct = !info.Mode().IsRegular()
	return o, info, nil
}

// checkLink refuses symbolic links that a file shouldn't be written through. Others are
// followed, as a shell's > does: what they point to is replaced, and they stay. A link that
// leads nowhere would itself be replaced. And one in a directory where everybody may make
// files is followed only if the user, or whoever owns the directory, made it: the system
// refuses to follow it too (protected_symlinks), but only where it does so itself.
func checkLink(path string) error {
	link, err := os.Lstat(path)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return nil // locate reports it
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s can't be written: it is a symbolic link to something that doesn't exist: name a "+
			"file, or remove the link", path)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.Mode()&fs.ModeSticky == 0 || dir.Mode().Perm()&0o002 == 0 {
		return nil
	}
	of, ok := link.Sys().(*syscall.Stat_t)
	owner, okDir := dir.Sys().(*syscall.Stat_t)
	if ok && okDir && int(of.Uid) != os.Geteuid() && of.Uid != owner.Uid {
		return fmt.Errorf("%s can't be written: it is a symbolic link that another user (%d) has put into %s: "+
			"name a file", path, of.Uid, filepath.Dir(path))
	}
	return nil
}

// create makes the file without a name, with the rights of the one that it will
// replace.
func (o *File) create(info os.FileInfo) error {
	if err := o.open(); err != nil {
		return Error(o.path, err)
	}
	if info == nil {
		return nil
	}
	if err := o.file.Chmod(info.Mode().Perm()); err != nil {
		o.Abort()
		return Error(o.path, err)
	}
	return nil
}

// Error says what the system said about a path, without the name of the system call
// and of temporary files.
func Error(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s can't be written: %w", path, err)
}

// open makes the file without a name; where the file system can't, one with a
// temporary name beside the final one.
func (o *File) open() error {
	f, err := openUnnamed(filepath.Dir(o.final), 0o666)
	if err == nil {
		o.file = f
		return nil
	}
	if !errors.Is(err, errNoUnnamed) {
		return err
	}
	return o.openNamed()
}

// openNamed makes the file under a temporary name.
func (o *File) openNamed() (err error) {
	if o.temp, err = o.tempName(); err != nil {
		return err
	}
	o.file, err = os.OpenFile(o.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	return err
}

func (o *File) tempName() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(o.final), "."+filepath.Base(o.final)+"."+hex.EncodeToString(b[:])+".tmp"), nil
}

// File is what is written to, for another process; it stays o's.
func (o *File) File() *os.File { return o.file }

// Write appends to the file.
func (o *File) Write(p []byte) (int, error) { return o.file.Write(p) }

var _ io.Writer = (*File)(nil)

// Commit makes the file appear in one step, in place of an older one. The File
// can't be used afterwards.
func (o *File) Commit() error {
	if o.direct {
		return errorOrNil(o.path, o.file.Close())
	}
	if o.temp == "" {
		temp, err := o.tempName()
		if err != nil {
			o.Abort()
			return errorOrNil(o.path, err)
		}
		// An unnamed file gets a name through its descriptor. Linking can't replace,
		// so it is linked under a temporary name and moved from there.
		from := descriptor(o.file.Fd())
		if err := unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, temp, unix.AT_SYMLINK_FOLLOW); err != nil {
			o.Abort()
			return errorOrNil(o.path, err)
		}
		o.temp = temp
	}
	if err := o.file.Close(); err != nil {
		os.Remove(o.temp)
		return errorOrNil(o.path, err)
	}
	if err := os.Rename(o.temp, o.final); err != nil {
		os.Remove(o.temp)
		return errorOrNil(o.path, err)
	}
	return nil
}

// CommitNew is Commit where nothing stands at the path; else its error is fs.ErrExist, and what is there stays. Of
// several processes that do it at once, exactly one succeeds.
func (o *File) CommitNew() error {
	defer o.Abort()
	from := o.temp
	if from == "" {
		from = descriptor(o.file.Fd())
	}
	return errorOrNil(o.path, unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, o.final, unix.AT_SYMLINK_FOLLOW))
}

// Sync returns when what was written would outlast a power failure, but for the file's name: that takes Commit, and
// SyncDir behind it.
func (o *File) Sync() error { return errorOrNil(o.path, o.file.Sync()) }

// SyncDir returns when the names in a directory, as they are now, would outlast a power failure.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return Error(dir, err)
	}
	return errorOrNil(dir, errors.Join(f.Sync(), f.Close()))
}

// Abort throws the file away. Calling it after Commit does nothing.
func (o *File) Abort() {
	if o.file.Close() == nil && o.temp != "" {
		os.Remove(o.temp)
	}
}

func errorOrNil(path string, err error) error {
	if err == nil {
		return nil
	}
	return Error(path, err)
}

// errNoUnnamed says that a file system can't make files without a name.
var errNoUnnamed = errors.New("outfile: no unnamed files here")

// openUnnamed opens a file for reading and writing that has no name in dir and is
// gone when its last descriptor is closed.
func openUnnamed(dir string, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), dir+"/(unnamed)"), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
			return nil, errNoUnnamed
		default:
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
	}
}

// TemporaryDir is where temporary files for the output at path belong: beside it,
// where there is room for it, or where temporary files go if it is no file.
func TemporaryDir(path string) string {
	o, _, err := locate(path)
	if err != nil || o.direct {
		return os.TempDir()
	}
	return filepath.Dir(o.final)
}

// ScratchAdvice ends the text of an error of ScratchDir about a folder in memory: what to do, where TMPDIR is this
// process's own.
const ScratchAdvice = ": let TMPDIR name a folder there"

// ScratchDir is where large temporary files belong: what TMPDIR names, or else the first of /var/tmp and /tmp that is
// on a disk. A folder in memory is refused, because what is written there would take what it is to save.
func ScratchDir() (string, error) {
	dirs := []string{os.Getenv("TMPDIR")}
	if dirs[0] == "" {
		dirs = []string{"/var/tmp", "/tmp"}
	}
	var bad error
	for _, dir := range dirs {
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		switch {
		case err != nil:
			err = Error(dir, err)
		case fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC:
			err = fmt.Errorf("%s: found a file system in memory, want one on a disk%s", dir, ScratchAdvice)
		default:
			return dir, nil
		}
		if bad == nil {
			bad = err
		}
	}
	return "", bad
}

// Temporary opens a temporary file without a name in dir: one that no way of dying
// can leave behind, but for the instant between creation and removal on file
// systems without unnamed files.
func Temporary(dir string) (*os.File, error) {
	f, err := openUnnamed(dir, 0o600)
	if !errors.Is(err, errNoUnnamed) {
		return f, err
	}
	f, err = os.CreateTemp(dir, ".disco-*.tmp")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Reopen opens a file that is open once more, for reading, with a place in it of its own: also one without a name.
func Reopen(f *os.File) (*os.File, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var again *os.File
	if failed := conn.Control(func(fd uintptr) { again, err = os.Open(descriptor(fd)) }); failed != nil {
		return nil, failed
	}
	return again, err
}

// descriptor is the path that leads to an open file.
func descriptor(fd uintptr) string { return "/proc/self/fd/" + strconv.Itoa(int(fd)) }
