// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// FileError says that a run has ended because a temporary file of it can't be written, as a rule on a full disk.
type FileError struct {
	Dir  string // its folder; "": one of another machine
	text string
	err  error // the worker's, if it was one
}

// Error says where the file is, how much room it needs, and what to do.
func (e *FileError) Error() string { return e.text }

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.err }

// isFileError reports whether a run has ended because of a temporary file.
func isFileError(err error) bool {
	var file *FileError
	return errors.As(err, &file)
}

// isFull reports whether an error is one of a disk on which there is no room.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// withFolder makes one error of those of workers that can't write their files for the trace and the calls: each knows
// only what its file is for.
func (l *Launch) withFolder(failed error) error {
	var w *WorkerError
	if !errors.As(failed, &w) || !w.File || w.Wrong {
		return failed
	}
	dir := outfile.TemporaryDir(l.recordPath())
	need, where := fmt.Sprintf("about %d bytes for each event", trace.RecordBytes),
		"--trace name a file in another folder"
	if l.cfg.Records != nil {
		need = fmt.Sprintf("about %d bytes for each thing that is recorded, and for a trace %d for each event",
			node.RowBytes, trace.RecordBytes)
		if l.cfg.Trace == "" {
			where = "--out name a directory on another disk"
		}
	}
	if l.cfg.Replay != nil || l.cfg.Journal != nil || dir == os.TempDir() { // a journal is for the caller, who reads it
		dir, where = os.TempDir(), "TMPDIR name another folder"
	} else if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	switch {
	case l.cfg.Replay != nil:
		need = l.cfg.Replay.room()
	case l.cfg.Journal != nil:
		need = "the data of all events that are wanted"
	}
	text := fmt.Sprintf("launch: %s: %s: it is in %s, and takes %s: let %s", workerName(w.Worker, w.Machine),
		w.Reason, dir, need, where)
	if w.Machine != "" {
		dir = ""
		text = fmt.Sprintf("launch: %s: %s: it is in that machine's folder for temporary files, and takes %s: let "+
			"TMPDIR of its agent name another folder", workerName(w.Worker, w.Machine), w.Reason, need)
	}
	return &FileError{dir, text, failed}
}

// room says what the calls of a replay take.
func (p *Replay) room() string {
	calls := uint64(0)
	for _, rec := range p.at {
		calls += rec.calls
	}
	return fmt.Sprintf("about %d bytes for each call, %d for the %d calls that are compared", node.CallWholeBytes,
		calls*node.CallWholeBytes, calls)
}

// statesUnwritten ends a replay whose own states can't be written: they are what is compared.
func (l *Launch) statesUnwritten(v *saving) error {
	dir := os.TempDir()
	return &FileError{dir, fmt.Sprintf("launch: the states at %v s, which are to be compared, can't be written: %v: "+
		"they go to %s, as large as the checkpoint there, and twice at a time: let TMPDIR name another folder",
		v.epoch, v.err, dir), v.err}
}
