// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
)

// graceMax bounds the grace that an agent asks for.
const graceMax = time.Hour

// markMax bounds marks and names, in bytes: with both in it, a name of Kubernetes has at most 63.
const markMax = 40

// isMark tells whether a text can be part of the names of folders, jobs and pods.
func isMark(text string) bool {
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	return text != "" && len(text) <= markMax && text[0] != '-' && text[len(text)-1] != '-'
}

// folder is the folder for work of one host. Its file "host" is locked by the host that has it, and names its process.
//
// The machine's name is in the folder's, since folders may be on a disk that machines share, where neither locks nor
// numbers of processes would mean anything.
type folder struct {
	path string
	all  string // pattern of all the agent's folders of this machine
	lock *os.File
}

// hostFile is the file with the lock.
const hostFile = "host"

// takeFolder takes the folder of an agent's host. An earlier host of the same agent that still has it is told to end,
// and killed when it doesn't: that agent has no other connection to it.
func takeFolder(done <-chan struct{}, work string, a *hello) (*folder, error) {
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if work, err = filepath.Abs(work); err != nil {
		return nil, err
	}
	prefix := filepath.Join(work, machine+"_"+a.Mark+"_")
	f := &folder{path: prefix + a.Name, all: prefix + "*"}
	began, told := time.Now(), syscall.Signal(0)
	for {
		if err := os.MkdirAll(f.path, 0o700); err != nil { // who ended may have removed it
			return nil, fmt.Errorf("the folder for work: %w", err)
		}
		holder, err := f.tryLock(os.Getpid())
		if f.lock != nil {
			return f, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		since := time.Since(began)
		switch {
		case since > a.Grace+2*closeWait:
			return nil, fmt.Errorf("%s: an earlier host (process %d) has it, and doesn't end when it is killed", f.path,
				holder)
		case since > a.Grace+closeWait && told != syscall.SIGKILL:
			told = syscall.SIGKILL
			f.end(holder, told)
		case told == 0 && holder > 0:
			told = syscall.SIGTERM
			f.end(holder, told)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-done:
			return nil, errors.New("the agent went while an earlier host still ended")
		}
	}
}

// tryLock takes the lock, and writes who has it, 0: nobody who is to be ended. Where it is taken it gives the process
// that has it; 0: it isn't known.
func (f *folder) tryLock(self int) (holder int, err error) {
	path := filepath.Join(f.path, hostFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("the folder for work: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return f.holder(), file.Close()
	}
	own, wrong := file.Stat()
	now, missing := os.Stat(path)
	if err = errors.Join(err, wrong); err == nil && (missing != nil || !os.SameFile(own, now)) {
		return 0, errors.Join(os.ErrNotExist, file.Close()) // its host removed it between the two
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(self)+"\n"), 0)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("the folder for work: %w", err), file.Close())
	}
	f.lock = file
	return 0, nil
}

// numberKind is the file with the lock.
var numberKind = infile.Kind{Name: "the number of a process", BytesMax: 100}

// holder reads the number of the process that has the lock; 0: there is none.
func (f *folder) holder() int {
	text, err := infile.Read(filepath.Join(f.path, hostFile), numberKind)
	number, ok := strings.CutSuffix(string(text), "\n") // the whole of it was written
	n, wrong := strconv.Atoi(number)
	if err != nil || wrong != nil || !ok {
		return 0
	}
	return n
}

// end signals the process that has the lock, if it still has it.
func (f *folder) end(pid int, s syscall.Signal) {
	p, err := os.FindProcess(pid) // a handle: no other process gets the signal, whoever has the number then
	if err != nil {
		return
	}
	defer p.Release()
	if f.holder() == pid && pid != os.Getpid() && f.hasOpen(pid) {
		_ = p.Signal(s)
		_ = p.Signal(syscall.SIGCONT) // it may have been stopped
	}
}

// hasOpen tells whether a process has the file with the lock open: the number in it may be that of a host that is no
// more, which another process has now.
func (f *folder) hasOpen(pid int) bool {
	own, err := os.Stat(filepath.Join(f.path, hostFile))
	if err != nil {
		return false
	}
	files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*")) // the pattern is right
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && os.SameFile(own, info) {
			return true
		}
	}
	return false
}

// others are the folders of the agent's other hosts of this machine that nobody has. They are locked.
func (f *folder) others() (all []*folder, err error) {
	paths, err := filepath.Glob(f.all)
	for _, path := range paths {
		other := &folder{path: path}
		if path == f.path {
			continue
		}
		_, wrong := other.tryLock(0)
		if wrong != nil && !errors.Is(wrong, os.ErrNotExist) { // its host removed it meanwhile
			err = errors.Join(err, wrong)
		}
		if other.lock != nil {
			all = append(all, other)
		}
	}
	return all, err
}

// remove removes the folder, which stays locked.
func (f *folder) remove() error { return os.RemoveAll(f.path) }

// close gives the lock back.
func (f *folder) close() error { return f.lock.Close() }

// sleep waits; false: ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil // false when the time is over as well, too
}
