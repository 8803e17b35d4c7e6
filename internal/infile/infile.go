// SPDX-License-Identifier: Apache-2.0

// Package infile reads the files that a flag, an argument or a scenario names.
//
// Guarantee: reading ends after a number of bytes that the caller gives, whatever the
// name leads to. What is no file is refused before a byte of it is read: a directory, a
// device, a socket, and a named pipe, whose other end may never come. A pipe that a
// shell made (`<(command)`, /dev/stdin) is read like a file, up to the same limit.
//
//	text, err := infile.Read(path, infile.Kind{Name: "a placement file", BytesMax: 8 << 20})
package infile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Kind is what a file is to be.
type Kind struct {
	Name     string // for messages, after "want": a scenario file in YAML
	BytesMax int    // the most that is read
}

// Error says why a file was not read. It unwraps to the system's error where there is
// one: fs.ErrNotExist, fs.ErrPermission, ….
type Error struct {
	Path  string
	Found string // what stands there, or what became of the attempt
	Want  string
	ToDo  string // how to put it right; "" where Want says it all
	err   error
}

// Error is path: found X, want Y; what to do.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: found %s, want %s", e.Path, e.Found, e.Want)
	if e.ToDo != "" {
		text += "; " + e.ToDo
	}
	return text
}

// Unwrap is the system's error, or nil.
func (e *Error) Unwrap() error { return e.err }

// Read gives the content of the file at path. Its errors are *Error.
func Read(path string, kind Kind) ([]byte, error) {
	f, err := Open(path, kind)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A regular file that is too large isn't read at all; a pipe, or a file that grows
	// meanwhile, is read up to the limit.
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > int64(kind.BytesMax) {
		return nil, tooLarge(path, fmt.Sprintf("a file of %d bytes", info.Size()), kind)
	}
	return All(f, path, kind)
}

func tooLarge(path, found string, kind Kind) *Error {
	return &Error{Path: path, Found: found, Want: fmt.Sprintf("%s of at most %d bytes", kind.Name, kind.BytesMax)}
}

// Open opens the file at path for callers that read it as a stream; they bound what they
// read by themselves. Its errors are *Error.
func Open(path string, kind Kind) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		if what := notAFile(path, info.Mode()); what != "" {
			return nil, &Error{Path: path, Found: what, Want: kind.Name}
		}
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Path: path, Found: "no file of that name", Want: kind.Name, err: err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Path: path, Found: "a file without permission to read it", Want: kind.Name,
			ToDo: "change its mode or its owner", err: err}
	case err != nil:
		return nil, &Error{Path: path, Found: "a file that can't be opened (" + reason(err) + ")", Want: kind.Name,
			err: err}
	}
	return f, nil
}

// All reads r to its end; path stands for it in messages. Its errors are *Error.
func All(r io.Reader, path string, kind Kind) ([]byte, error) {
	// The limit is on what is read and not on what Stat says: a pipe has no size.
	text, err := io.ReadAll(io.LimitReader(r, int64(kind.BytesMax)+1))
	if err != nil {
		return nil, &Error{Path: path, Found: "a file that can't be read (" + reason(err) + ")", Want: kind.Name,
			err: err}
	}
	if len(text) > kind.BytesMax {
		return nil, tooLarge(path, fmt.Sprintf("more than %d bytes", kind.BytesMax), kind)
	}
	return text, nil
}

// notAFile names what a path leads to, where that can't be read as a file.
func notAFile(path string, mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0 && !unnamed(path):
		return "a named pipe"
	}
	return ""
}

// unnamed reports whether a path leads to a pipe that has no name of its own, but stands
// under a descriptor of this process: /dev/stdin, /dev/fd/63.
func unnamed(path string) bool {
	const linksMax = 40 // as the kernel has it
	for range linksMax {
		next, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if strings.HasPrefix(next, "pipe:[") {
			return true
		}
		if !strings.HasPrefix(next, "/") {
			next = path[:strings.LastIndexByte(path, '/')+1] + next
		}
		path = next
	}
	return false
}

// reason is the system's error without operation and path.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
