// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitsEnv passes the limits to the process that they apply to.
const limitsEnv = "DISCO_CHAOS_LIMITS"

// limits are the reduced resources of a run, or the results of its system calls. They apply to the launcher and to
// all processes that it starts.
type limits struct {
	Files  uint64 // open files; 0: as many as usual
	Memory uint64 // bytes of addresses (RLIMIT_AS); 0: as many as usual
	Group  uint64 // bytes of memory of a control group; 0: none
	Deny   *deny  // a system call that fails
	Disk   string // a folder that becomes a file system of DiskBytes
}

// diskBytes is the size of the file system that fills up.
const diskBytes = 256 << 10

// gateFD is the descriptor that a process in a control group waits for.
const gateFD = 3

// deny is a system call that fails, if the argument of the given index has the given
// value under the mask. A mask of 0 lets every call fail.
type deny struct {
	Call  uintptr
	Arg   int
	Mask  uint32
	Value uint32
	Errno syscall.Errno
}

// becomeLimited applies the limits to this process and executes the program of args. It returns only after an
// error.
func becomeLimited(args []string) error {
	// A filter of system calls applies to the thread that sets it and to what it executes.
	runtime.LockOSThread()
	var l limits
	if err := json.Unmarshal([]byte(os.Getenv(limitsEnv)), &l); err != nil {
		return fmt.Errorf("%s: %w", limitsEnv, err)
	}
	if l.Group != 0 {
		// Wait until the parent has put this process into the group.
		gate := os.NewFile(gateFD, "gate")
		if _, err := gate.Read(make([]byte, 1)); err != nil {
			return fmt.Errorf("the control group: %w", err)
		}
		gate.Close()
	}
	if l.Disk != "" {
		// This process has a mount name space of its own: no other process sees the mount.
		if err := unix.Mount("tmpfs", l.Disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
			return fmt.Errorf("mounting a small file system: %w", err)
		}
		if err := os.Chdir(l.Disk); err != nil {
			return err
		}
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_NOFILE: l.Files, unix.RLIMIT_AS: l.Memory} {
		if limit == 0 {
			continue
		}
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("limit %d of resource %d: %w", limit, resource, err)
		}
	}
	if l.Deny != nil {
		if err := l.Deny.apply(); err != nil {
			return err
		}
	}
	if err := os.Setenv(roleEnv, roleProgram); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// Offsets in what a filter of system calls looks at (struct seccomp_data).
const (
	offsetCall = 0
	offsetArgs = 16
)

// apply lets the system call fail in this thread and in what it executes.
func (d *deny) apply() error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	fail := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(d.Errno)}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	equal := func(value uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: otherwise}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	return setFilter([]unix.SockFilter{
		load(offsetCall),
		equal(uint32(d.Call), 4),
		load(offsetArgs + 8*uint32(d.Arg)), // the low half: the machines are little endian
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: d.Mask},
		equal(d.Value, 1),
		fail,
		allow,
	})
}

// memoryGroup makes a control group that allows so much memory. The error says why this machine can't do it.
func memoryGroup(name string, bytes uint64) (join func(pid int) error, remove func(), err error) {
	const root = "/sys/fs/cgroup/memory"
	if _, err := os.Stat(filepath.Join(root, "memory.limit_in_bytes")); err != nil {
		return nil, nil, errors.New("no control group of memory that this user may make")
	}
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, nil, errors.New("no control group of memory that this user may make")
	}
	remove = func() { _ = syscall.Rmdir(dir) } // busy as long as a process is in it, which is reported
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), strconv.AppendUint(nil, bytes, 10),
		0o644); err != nil {
		remove()
		return nil, nil, err
	}
	return func(pid int) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0o644)
	}, remove, nil
}
