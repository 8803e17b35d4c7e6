// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/outfile"
)

// savedKey is an idempotency key that is on disk before it is sent, and until there is an answer: so a submission whose
// process was killed is the same one when the command is repeated.
type savedKey struct {
	key   string
	again bool     // it was there
	file  *os.File // locked; nil: the key is its user's
}

// savedMost is how many of one submission may be under way at the same time.
const savedMost = 100

// saveKey gives the key of a submission that had no answer, where no other process is at it, or a new one.
func saveKey(what string) (*savedKey, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, app.Usage("there is no folder for the key of the submission (%v): set XDG_STATE_HOME, or give "+
				"--idempotency-key", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "disco", "submissions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for the key of the submission: %w; give --idempotency-key", err)
	}
	sum := sha256.Sum256([]byte(what))
	for i := range savedMost {
		k, err := lockKey(filepath.Join(dir, fmt.Sprintf("%s-%d", hex.EncodeToString(sum[:16]), i)))
		if err != nil || k != nil {
			return k, err
		}
	}
	return nil, fmt.Errorf("%d of the same submission are under way: give --idempotency-key", savedMost)
}

// lockKey gives the key in a file, or makes one; nil: another process is at it.
func lockKey(path string) (*savedKey, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("the key of the submission: %w; give --idempotency-key", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = nil
			}
			return nil, errors.Join(err, f.Close())
		}
		here, err := f.Stat()
		there, errThere := os.Stat(path)
		if err == nil && (errThere != nil || !os.SameFile(here, there)) { // it was answered meanwhile, and removed
			_ = f.Close() // nothing was written
			continue
		}
		k := &savedKey{file: f}
		if err == nil {
			err = k.read()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the key of the submission: %w", err), f.Close())
		}
		return k, nil
	}
}

// read reads the key, or writes one where there is none whole.
func (k *savedKey) read() error {
	text := make([]byte, keyBytes+1)
	n, err := io.ReadFull(k.file, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if n == keyBytes {
		k.key, k.again = string(text[:n]), true
		return nil
	}
	k.key = rand.Text()[:keyBytes]
	if err := k.file.Truncate(0); err != nil {
		return err
	}
	if _, err := k.file.WriteAt([]byte(k.key), 0); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	return outfile.SyncDir(filepath.Dir(k.file.Name()))
}

// keyBytes is the length of a key: 130 random bits.
const keyBytes = 26

// done gives the file back, and removes it where there was an answer.
func (k *savedKey) done(answered bool) error {
	if k.file == nil {
		return nil
	}
	var err error
	if answered {
		err = os.Remove(k.file.Name())
	}
	return errors.Join(err, k.file.Close())
}
