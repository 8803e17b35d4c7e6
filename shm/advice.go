// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"

	"golang.org/x/sys/unix"
)

// advices say what to change when the machine refuses a system call at the start.
var advices = []struct {
	err  error
	text string
}{
	{unix.EMFILE, "this process may have no more open files: raise its limit (ulimit -n), or use fewer workers"},
	{unix.ENFILE, "the machine has no more open files: raise fs.file-max (sysctl), or end other programs"},
	{unix.ENOMEM, "no memory, or no address space: free memory, raise the memory limit of the container, the limit " +
		"of address space (ulimit -v) or vm.max_map_count (sysctl), or use fewer workers and smaller rings and pools"},
	{unix.EFBIG, "this process may make no file so large: raise its limit (ulimit -f), or use smaller rings and pools"},
	{unix.ENOSPC, "no memory: free memory, raise the memory limit of the container, or use smaller rings and pools"},
	{unix.EAGAIN, "a limit of this user or container is reached: raise it (ulimit -u for processes), or end other " +
		"programs"},
	{unix.ENOSYS, "this kernel or sandbox doesn't have the call: use Linux 3.17 or newer and let the sandbox allow " +
		"it, or keep all workers in one process (transport inproc)"},
	{unix.EINVAL, "this kernel or sandbox doesn't know an argument of the call, perhaps sealing: use Linux 3.17 or " +
		"newer, or keep all workers in one process (transport inproc)"},
	{unix.EOPNOTSUPP, "this kernel or sandbox doesn't have it for memory files: use Linux 3.17 or newer, or keep all " +
		"workers in one process (transport inproc)"},
	{unix.EPERM, "a rule of the system forbids it: let the sandbox (seccomp, a security module) allow the call, or " +
		"keep all workers in one process (transport inproc)"},
	{unix.EACCES, "a rule of the system forbids it: look at vm.memfd_noexec (sysctl) and at the rules of the " +
		"sandbox, or keep all workers in one process (transport inproc)"},
}

// Advice says what to change when a system call has failed with err while a program
// starts: ": " and the advice, to be put behind the error, or nothing where none is
// known.
func Advice(err error) string {
	for _, a := range advices {
		if errors.Is(err, a.err) {
			return ": " + a.text
		}
	}
	return ""
}
