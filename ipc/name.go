// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// NameMax is the longest name of a receiver, in bytes.
const NameMax = 40

// pathMax is the longest path of a Unix socket on Linux, without the closing zero.
const pathMax = 107

// checkName accepts what is a file name everywhere and readable in a listing.
func checkName(name string) error {
	ok := len(name) >= 1 && len(name) <= NameMax && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' ||
			r == '-')
	})
	if !ok {
		return fmt.Errorf("ipc: name %q, want 1 to %d letters, digits, '.', '_' and '-', the first one no '.'", name,
			NameMax)
	}
	return nil
}

// gatewayName is that of a gateway's socket and lock, which no receiver can have.
const gatewayName = ".agent"

// splitTarget divides a name on another machine: host:port/name.
func splitTarget(text string) (address, name string, err error) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 || len(text) > targetMax {
		return "", "", fmt.Errorf("ipc: found %.300q, want host:port/name of up to %d bytes", text, targetMax)
	}
	address, name = text[:at], text[at+1:]
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	odd := strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7F || r == '/' })
	if err != nil || portErr != nil || host == "" || number == 0 || odd {
		return "", "", fmt.Errorf("ipc: found the address %q, want host:port, the port from 1 to 65535", address)
	}
	return address, name, checkName(name)
}

// directory is where the sockets lie: dir, or the user's own directory for such
// things, or else one below the directory for temporary files.
func directory(dir string) string {
	if dir != "" {
		return dir
	}
	if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
		return filepath.Join(base, "disco")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("disco-%d", os.Geteuid()))
}

// checkPrivate refuses a directory into which another user could put a socket, or that is a symbolic link.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("ipc: directory of the sockets: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%w: directory %s is %v, want one of user %d that no other user may enter (mode 0700): "+
			"choose another Dir", ErrPrivate, dir, info.Mode(), os.Geteuid())
	}
	return nil
}

// socketPath is where the socket of a name lies in a checked directory.
func socketPath(dir, name string) (string, error) {
	path := filepath.Join(dir, name+".sock")
	if len(path) > pathMax {
		return "", fmt.Errorf("ipc: path %s of the socket has %d bytes, at most %d are possible: choose a shorter Dir",
			path, len(path), pathMax)
	}
	return path, nil
}

// claim is the right to listen under a name: a locked file beside the socket. The lock ends with the process,
// however it ends, so a process that gets it knows that a socket of that name is left over.
type claim struct {
	socket string   // path
	file   *os.File // locked
}

// claimTries bounds how often a lock file may vanish between opening and locking.
const claimTries = 100

// takeName makes the directory if need be, takes the claim and removes what a dead
// listener left.
func takeName(dir, name string) (*claim, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("ipc: directory of the sockets: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	socket, err := socketPath(dir, name)
	if err != nil {
		return nil, err
	}
	for range claimTries {
		file, err := lock(filepath.Join(dir, name+".lock"))
		if err != nil {
			return nil, err
		}
		if file == nil {
			continue
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("ipc: socket of a dead listener: %w", err), file.Close())
		}
		return &claim{socket: socket, file: file}, nil
	}
	return nil, fmt.Errorf("%w: %q: its lock file vanished %d times: others take and give back the name all the time",
		ErrTaken, name, claimTries)
}

// lock opens and locks a file. The result is nil when the file at path is not, or no
// longer, the one that was locked: its last owner removed it in between.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ipc: lock file: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%w: a process holds %s", ErrTaken, path), file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ipc: locking %s: %w", path, err), file.Close())
	}
	ours, err := file.Stat()
	if err == nil {
		if there, err := os.Stat(path); err == nil && os.SameFile(ours, there) {
			return file, nil
		}
	}
	return nil, file.Close()
}

// release removes socket and lock file, and then unlocks the name.
func (c *claim) release() error {
	var left []error
	for _, path := range []string{c.socket, c.file.Name()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, fmt.Errorf("ipc: clearing up: %w", err))
		}
	}
	return errors.Join(append(left, c.file.Close())...)
}
