// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Etcds are disco-servers that serve as one store, or a single one.
type Etcds struct {
	Servers []*Etcd
}

// Etcd is one disco-server. Its files lie in a folder of its own; it has the same address after each start.
type Etcd struct {
	*Process
	addr string
	from int64 // where the output of the last start begins
}

// StartEtcds starts n servers, 1 or 3, whose files lie in dir, and waits until all of them serve. The flags are for
// each.
func StartEtcds(ctx context.Context, dir string, n int, flags ...string) (*Etcds, error) {
	z := &Etcds{}
	for i := range n {
		var join []string
		if i > 0 {
			join = []string{"--join", z.Servers[0].addr}
		}
		s, err := NewEtcd(filepath.Join(dir, strconv.Itoa(i+1)), append(join, flags...)...)
		if err == nil {
			z.Servers = append(z.Servers, s)
			err = errors.Join(s.Start(), s.Ready(ctx))
		}
		if err != nil {
			z.Close()
			return nil, err
		}
	}
	return z, nil
}

// NewEtcd makes a server that isn't started yet, with data in a folder below dir and a free port of the loopback,
// unless flags say otherwise.
func NewEtcd(dir string, flags ...string) (*Etcd, error) {
	program, err := ServerProgram()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{program, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}, flags...)
	return &Etcd{Process: newProcess(dir, "data", args...)}, nil
}

// Start starts the server; Ready waits until it serves.
func (s *Etcd) Start() error {
	if info, err := os.Stat(filepath.Join(s.dir, "output.txt")); err == nil {
		s.from = info.Size()
	}
	return s.Process.Start()
}

// readyLine is what a server prints when it serves.
var readyLine = regexp.MustCompile(`(?m)^ready: --store etcd://([^,\n]+)(?:,\S*)?\n`)

// Ready waits until the server serves, or has ended.
func (s *Etcd) Ready(ctx context.Context) error {
	for {
		if m := readyLine.FindStringSubmatch(s.outputFrom(s.from)); m != nil {
			s.addr = m[1]
			return nil
		}
		select {
		case <-s.Process.ended:
			return fmt.Errorf("storeserver: disco-server has ended: %s", s.Output())
		case <-ctx.Done():
			return fmt.Errorf("storeserver: disco-server doesn't serve: %w\n%s", context.Cause(ctx), s.Output())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Flags gives a server that doesn't run further flags, or other values of those that it has.
func (s *Etcd) Flags(flags ...string) { s.args = append(s.args, flags...) }

// Wipe takes away what a server that doesn't run has stored. It is a new store at the same address then.
func (s *Etcd) Wipe() error {
	s.args = append(s.args, "--listen", s.addr)
	return s.Process.Wipe()
}

// Addr is where the server serves clients.
func (s *Etcd) Addr() string { return s.addr }

// Addrs are the addresses of all servers.
func (z *Etcds) Addrs() (addrs []string) {
	for _, s := range z.Servers {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Close kills all servers.
func (z *Etcds) Close() {
	for _, s := range z.Servers {
		s.Signal(syscall.SIGCONT)
		s.Kill()
	}
}

// ServerProgram is disco-server, built from the tree around the working folder, once a process. The Go tool builds it
// anew only where its sources have changed.
var ServerProgram = sync.OnceValues(func() (string, error) { return build("disco-server", "cmd/disco-server", ".") })

// build builds a program of a module inside the tree around the working folder, for this process and later ones.
func build(name, module, pkg string) (string, error) {
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, module, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("storeserver: the source of %s %w above the working folder", name, ErrAbsent)
		}
	}
	cache, cacheErr := os.UserCacheDir()
	if err = errors.Join(err, cacheErr); err != nil {
		return "", fmt.Errorf("storeserver: %w", err)
	}
	dir := filepath.Join(cache, "disco-test", fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("storeserver: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("storeserver: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("storeserver: %w", err)
	}
	program := filepath.Join(dir, name)
	// With the flags of `make vet`, which has compiled all of disco-server.
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg)
	build.Dir, build.Env = filepath.Join(root, module), append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("storeserver: the Go tool, for %s, %w", name, ErrAbsent)
	case err != nil && missingModules.Match(out):
		return "", fmt.Errorf("storeserver: what %s is built of %w here, and can't be downloaded: %s", name, ErrAbsent,
			strings.TrimSpace(string(out)))
	case err != nil:
		return "", fmt.Errorf("storeserver: building %s: %w\n%s", name, err, out)
	}
	return program, nil
}

// missingModules is how the Go tool says that it can't download something.
var missingModules = regexp.MustCompile(`dial tcp|GOPROXY|connection refused|i/o timeout|no such host`)
