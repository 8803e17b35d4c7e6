// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/internal/workerproc"
)

// bucket is that of servers that are started here.
const bucket = "checkpoints"

// partSmall is the least that S3 takes as a part.
const partSmall = 5 << 20

func TestMain(m *testing.M) {
	if workerproc.Started(blobproc.Command) { // of the benchmark
		control, err := blobproc.Inherit()
		if err == nil {
			err = blobproc.Serve(control, func(ctx context.Context, address, owner string) (blobproc.Place, error) {
				return Open(ctx, address, Config{Getenv: os.Getenv, Owner: owner})
			})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// start starts a server for a test, or skips it where there is none.
func start(t testing.TB) *storeserver.S3 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first one is built
	defer cancel()
	s, err := storeserver.StartS3(ctx, t.TempDir(), bucket)
	storeserver.Need(t, err)
	t.Cleanup(s.Kill)
	return s
}

// env is the environment of a client of a server here, with further variables.
func env(addr string, more ...string) func(string) string {
	vars := map[string]string{endpointVar: "http://" + addr, keyVar: storeserver.S3Key, secretVar: storeserver.S3Secret,
		regionVar: "us-east-1"}
	for i := 0; i < len(more); i += 2 {
		vars[more[i]] = more[i+1]
	}
	return func(name string) string { return vars[name] }
}

var stores int // opened so far, for their owners' names

// open opens a prefix of a server here.
func open(t testing.TB, addr, prefix string) *Store {
	t.Helper()
	stores++
	s, err := Open(t.Context(), Scheme+bucket+"/"+prefix, Config{Getenv: env(addr),
		Owner: fmt.Sprintf("process %d on test", stores)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// elsewhere is a server that DISCO_S3_TEST names, s3://BUCKET/PREFIX, with the usual variables; what tests write there
// is removed.
func elsewhere(t testing.TB, prefix string) *Store {
	s, err := Open(t.Context(), os.Getenv("DISCO_S3_TEST")+"/"+prefix, Config{Getenv: os.Getenv, Owner: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer s.Close()
		blobs, err := s.List(context.Background(), "")
		for _, b := range blobs {
			err = s.Delete(context.Background(), b.Name)
		}
		if err != nil {
			t.Errorf("what the test wrote stays: %v", err)
		}
	})
	return s
}

// put stores a text.
func put(b checkpoint.Blobs, name, text string) error {
	return b.Put(context.Background(), name, strings.NewReader(text), int64(len(text)), false)
}
