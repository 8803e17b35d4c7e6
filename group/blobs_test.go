// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/internal/workerproc"
)

// openS3 starts this test binary as disco-group, which reaches the store.
func openS3(t *testing.T, address string) (*blobproc.Blobs, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := blobproc.Start(t.Context(), blobproc.Config{Executable: self, Address: address, Owner: "a test",
		Log: workerproc.NewLineWriter(t.Output())})
	if err == nil {
		t.Cleanup(b.Close)
	}
	return b, err
}

// TestBlobsCommand: a process of disco-group is a place for checkpoints in an object store. What is wrong with address
// or environment is said when it is opened, and no credentials are shown.
func TestBlobsCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may be built
	defer cancel()
	server, err := storeserver.StartS3(ctx, t.TempDir(), "bucket")
	storeserver.Need(t, err)
	t.Cleanup(server.Kill)
	for name, value := range map[string]string{programVariable: "1", "AWS_ENDPOINT_URL": "http://" + server.Addr(),
		"AWS_ACCESS_KEY_ID": storeserver.S3Key, "AWS_SECRET_ACCESS_KEY": storeserver.S3Secret,
		"AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": ""} {
		t.Setenv(name, value)
	}
	n := 0
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Blobs {
		n++
		b, err := openS3(t, fmt.Sprintf("s3://bucket/run-%d", n))
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	a, err := openS3(t, "s3://bucket/locked")
	if err != nil {
		t.Fatal(err)
	}
	b, err := openS3(t, "s3://bucket/locked")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	_, err = b.Lock(t.Context())
	if !errors.As(err, &locked) || !strings.HasPrefix(locked.Owner, "a test (last sign") {
		t.Errorf("%v, want *LockedError", err)
	}
	a.Close() // as where the program that uses it is killed
	if unlock, err := b.Lock(t.Context()); err != nil {
		t.Errorf("after the end of the one that had it: %v", err)
	} else if err := unlock(); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-wrong-secret")
	var refused *blobproc.RefusedError
	if _, err := openS3(t, "s3://bucket/x"); !errors.As(err, &refused) || strings.Contains(err.Error(), "the-wrong") ||
		!strings.Contains(err.Error(), "s3://bucket/x: list at http://"+server.Addr()+": SignatureDoesNotMatch: ") {
		t.Errorf("%v, want *RefusedError", err)
	}
	if status, _, text := run("", blobproc.Command); status != 2 || !strings.Contains(text, "start this") {
		t.Errorf("typed by a person it ends with %d: %s", status, text)
	}
}
