// SPDX-License-Identifier: Apache-2.0

package groupcall

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/app"
	"github.com/urfave/cli/v2"
)

// ProgramFlag is the program whose models run.
func ProgramFlag() cli.Flag {
	return &cli.StringFlag{Name: "program", Usage: "`FILE` of the program whose models run; the one that was called"}
}

// ProgramPath is the path of the program whose models run.
func ProgramPath(c *app.Call) (string, error) {
	if path := c.String("program"); path != "" {
		return path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the folder of this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "disco-run"), nil
}

// OpenProgram opens the program whose models run, and gives its digest.
func OpenProgram(c *app.Call) (f *os.File, digest [32]byte, err error) {
	path, err := ProgramPath(c)
	if err != nil {
		return nil, digest, err
	}
	if f, err = os.Open(path); err != nil {
		return nil, digest,
			app.Usage("--program: the program whose models run: %v: call this command by that program, "+
				"or name its file", err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
		err = app.Usage("--program: found %s with mode %v, want a program", path, info.Mode())
	}
	if err == nil {
		digest, err = Digest(f)
	}
	if err != nil {
		return nil, digest, errors.Join(err, f.Close())
	}
	return f, digest, nil
}

// Digest is that of a file.
func Digest(f *os.File) (d [sha256.Size]byte, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return d, fmt.Errorf("the digest of %s: %w", f.Name(), err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
