// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Beside is the path of a program of disco's: in the folder of this process's own or, where none is there, in one of
// PATH, since programs of models are far from disco's. Where there is none at all, it is that in the folder of this
// one.
func Beside(program string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the folder of this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), program)
	if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if found, err := exec.LookPath(program); err == nil {
			return found, nil
		}
	}
	return path, nil
}

// Become makes this process one of another program, with the same environment and standard files. It returns only an
// error: fs.ErrNotExist where there is no such program.
func Become(path string, args []string) error { return syscall.Exec(path, args, os.Environ()) }
