// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"os"
)

// Files are those without a name that a worker shares with its launcher. A nil one isn't wanted.
type Files struct {
	Trace   *os.File // gets the trace, what handlers record, and the journal of activations
	Spool   *os.File // gets the worker's parts of checkpoints
	Restore *os.File // has the state that a replication begins with
}

// List is those that there are, in the order in which they are handed over.
func (f *Files) List() (files []*os.File) {
	for _, file := range []*os.File{f.Trace, f.Spool, f.Restore} {
		if file != nil {
			files = append(files, file)
		}
	}
	return files
}

// Take takes the files that come with a Setup from such a list, which must have as many.
func (f *Files) Take(s *Setup, list []*os.File) error {
	wanted := s.NumFiles()
	if len(list) != wanted {
		return fmt.Errorf("worker: found %d files, want %d", len(list), wanted)
	}
	if s.records() {
		f.Trace, list = list[0], list[1:]
	}
	if s.GroupNodes > 0 {
		f.Spool, f.Restore = list[0], list[1]
	}
	return nil
}

// records reports whether there is a file that gets what is handled.
func (s *Setup) records() bool { return s.Trace != "" || s.Records || s.Calls }

// NumFiles is how many files come along.
func (s *Setup) NumFiles() (n int) {
	if s.records() {
		n++
	}
	if s.GroupNodes > 0 {
		n += 2
	}
	return n
}

// fileError is about a temporary file that can't be written. Nothing is wrong with what is simulated.
type fileError struct {
	what string // that the file is for
	err  error
}

// Error names what the file is for, because it has no name itself: the launcher knows where it is.
func (e *fileError) Error() string {
	return fmt.Sprintf("temporary file for %s: %v", e.what, unnamed(e.err))
}

// Unwrap gives the cause.
func (e *fileError) Unwrap() error { return e.err }

// placeError is about a folder that takes no temporary files.
type placeError struct{ error }

// Unwrap gives the cause.
func (e *placeError) Unwrap() error { return e.error }

// isFileError reports whether err is about a temporary file that can't be written, or made.
func isFileError(err error) bool {
	var file *fileError
	var place *placeError
	return errors.As(err, &file) || errors.As(err, &place)
}
