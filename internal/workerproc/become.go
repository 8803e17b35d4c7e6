// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"os"
	"syscall"
)

// Become makes this process one of another program, with the same environment and standard files. It returns only an
// error: fs.ErrNotExist where there is no such program.
func Become(path string, args []string) error { return syscall.Exec(path, args, os.Environ()) }
