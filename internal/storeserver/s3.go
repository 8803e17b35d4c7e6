// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Credentials of an S3 server that was started here.
const (
	S3Key    = "test-access-key"
	S3Secret = "test-secret-access-key"
)

// S3 is a server of an object store over S3: versitygw, over a folder. It has the same address after each start.
type S3 struct {
	*Process
	addr string
}

// StartS3 starts a server whose files lie in dir, with these buckets, and waits until it serves.
func StartS3(ctx context.Context, dir string, buckets ...string) (*S3, error) {
	program, err := S3Program()
	if err != nil {
		return nil, err
	}
	for _, b := range buckets {
		if err := os.MkdirAll(filepath.Join(dir, "data", b), 0o700); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	s := &S3{addr: "127.0.0.1:" + ports[0]}
	args := []string{program, "--access", S3Key, "--secret", S3Secret, "--port", s.addr, "--keep-alive", "--quiet",
		"posix"}
	s.Process = newProcess(dir, "data", append(args, filepath.Join(dir, "data"))...)
	if err := s.Start(); err != nil {
		return nil, err
	}
	if err := s.Ready(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// Ready waits until the server takes connections, or has ended.
func (s *S3) Ready(ctx context.Context) error {
	for {
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.Process.ended:
			return fmt.Errorf("storeserver: versitygw has ended: %s", s.Output())
		case <-ctx.Done():
			return fmt.Errorf("storeserver: versitygw doesn't serve: %w\n%s", context.Cause(ctx), s.Output())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Addr is where it serves: host and port, without TLS.
func (s *S3) Addr() string { return s.addr }

// S3Program is versitygw, built once a process, of the version in internal/tools/versitygw.
var S3Program = sync.OnceValues(func() (string, error) {
	return build("versitygw", "internal/tools/versitygw", "github.com/versity/versitygw/cmd/versitygw")
})
