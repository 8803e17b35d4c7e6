// SPDX-License-Identifier: Apache-2.0

// Package s3 keeps checkpoints in a bucket of an S3-compatible object store.
//
// Guarantee: a blob is there whole or not at all, and durable as far as the store promises it. Of several writers one
// has the lock; one that has lost it writes no further blob. Every call ends: after 30 s in which nothing moved, or by
// its context. Memory is at most four parts of what is being written, 16 MiB each up to blobs of 156 GiB, and what is
// read. Credentials come from the environment and are in no error.
//
//	store, err := s3.Open(ctx, "s3://bucket/prefix", s3.Config{Getenv: os.Getenv, Owner: "process 7 on alpha"})
//	defer store.Close()
//	repo, err := checkpoint.Open(ctx, store)
package s3

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Scheme is how addresses begin.
const Scheme = "s3://"

const (
	prefixBytesMax = 512
	quietMax       = 30 * time.Second // in which nothing of a call moves
	tries          = 60               // of a request; minio waits at most a second, with full jitter, between two
)

// Names of the environment's variables, as other programs for S3 read them.
const (
	keyVar      = "AWS_ACCESS_KEY_ID"
	secretVar   = "AWS_SECRET_ACCESS_KEY"
	tokenVar    = "AWS_SESSION_TOKEN"
	regionVar   = "AWS_REGION"
	endpointVar = "AWS_ENDPOINT_URL"
)

// Config says how a store is opened.
type Config struct {
	Getenv func(name string) string // of the environment: os.Getenv
	Owner  string                   // of a lock, for people: which process on which machine

	// Shorter times are for tests of outages. In Quiet nothing of a call moves until it ends; 0: 30 s, and a shorter
	// one takes a slow store for one that is gone. FreeAfter old, by the store's clock in whole seconds, a lock is
	// another writer's to take; 0: 60 s, and a shorter one is lost by a writer that doesn't come to run.
	Quiet, FreeAfter time.Duration
}

// Store is a prefix of a bucket: checkpoint.Blobs. Goroutines may share it.
type Store struct {
	core           minio.Core
	transport      *transport
	bucket, prefix string // prefix: empty, or it ends in a slash
	endpoint       string // for messages
	owner          string
	secrets        []string // that are in no message

	quiet     atomic.Int64  // a time.Duration: quietMax, and less in tests
	freeAfter time.Duration // as Config says
	part      int64         // partLeast, and less in tests
	namesMax  int           // of List, and less in tests
	clock     clock

	mu   sync.Mutex
	held *hold // the lock that this one has; nil: none. Guarded by mu
}

// clock is that of the lock's renewal, which tests set.
type clock struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
}

// Open opens what an address, s3://BUCKET or s3://BUCKET/PREFIX, names, and sees that the bucket is there and can be
// read. An error is about the address, the environment, or the way to the store.
func Open(ctx context.Context, address string, cfg Config) (*Store, error) {
	s, err := newStore(address, cfg)
	if err != nil {
		return nil, err
	}
	err = s.call(ctx, "list", "", func(ctx context.Context) error {
		for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, MaxKeys: 1}) {
			return o.Err // one is enough
		}
		return ctx.Err()
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newStore asks nobody yet.
func newStore(address string, cfg Config) (*Store, error) {
	bucket, prefix, err := parse(address)
	if err != nil {
		return nil, err
	}
	key, secret, token := cfg.Getenv(keyVar), cfg.Getenv(secretVar), cfg.Getenv(tokenVar)
	if key == "" || secret == "" {
		return nil, fmt.Errorf("%s: found no credentials: set %s and %s, and %s where it belongs to them", address,
			keyVar, secretVar, tokenVar)
	}
	endpoint, host, secure, err := endpointOf(cfg.Getenv)
	if err != nil {
		return nil, err
	}
	s := &Store{bucket: bucket, prefix: prefix, endpoint: endpoint, owner: cfg.Owner, transport: newTransport(),
		secrets: []string{secret, token, key}, part: partLeast, namesMax: namesMax,
		freeAfter: cmp.Or(cfg.FreeAfter, freeAfter), clock: clock{now: time.Now, after: time.After}}
	s.quiet.Store(int64(cmp.Or(cfg.Quiet, quietMax)))
	client, err := minio.New(host, &minio.Options{Creds: credentials.NewStaticV4(key, secret, token), Secure: secure,
		Region: cmp.Or(cfg.Getenv(regionVar), cfg.Getenv("AWS_DEFAULT_REGION")), Transport: s.transport,
		MaxRetries: tries})
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", endpointVar, endpoint, err)
	}
	s.core = minio.Core{Client: client}
	return s, nil
}

// endpointOf is the store's address: of Amazon, where the environment names none.
func endpointOf(getenv func(string) string) (text, host string, secure bool, err error) {
	text = cmp.Or(getenv(endpointVar+"_S3"), getenv(endpointVar))
	if text == "" {
		return "https://s3.amazonaws.com", "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		// It may have a password in it, so it isn't shown.
		return "", "", false, fmt.Errorf("%s: want https://HOST or https://HOST:PORT, or the same with http, and "+
			"nothing else in it", endpointVar)
	}
	return u.Scheme + "://" + u.Host, u.Host, u.Scheme == "https", nil
}

// Check refuses what can't be the address of a place below whose prefix names of so many bytes are put, as Open would,
// without asking anybody.
func Check(address string, below int) error {
	_, prefix, err := parse(address)
	if most := prefixBytesMax - below; err == nil && len(prefix) > most {
		err = fmt.Errorf("%.600q: the prefix has %d bytes, want at most %d", address, len(prefix), most)
	}
	return err
}

// checkBucket refuses what no bucket can be called: Amazon's rules are in its user guide, "General purpose bucket
// naming rules" (https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, read in 2026), and
// other stores have taken them over. The client refuses . beside -, too. Names that are reserved (beginning with xn--
// or sthree-, ending with -s3alias and the like) are left to the store: by some of them buckets are reached.
func checkBucket(name string) error {
	err := s3utils.CheckValidBucketNameStrict(name)
	if err != nil {
		return fmt.Errorf("found the bucket %.80q (%w), want a name of 3 to 63 lower-case letters, digits, dots and "+
			"hyphens, with a letter or digit at both ends, no dot beside a dot or a hyphen, and no IP address", name,
			err)
	}
	return nil
}

// parse splits an address.
func parse(address string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(address, Scheme)
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimRight(prefix, "/")
	switch {
	case !ok:
		err = fmt.Errorf("want an address that begins with %s", Scheme)
	case len(prefix) > prefixBytesMax:
		err = fmt.Errorf("the prefix has %d bytes, want at most %d", len(prefix), prefixBytesMax)
	case prefix != "" && slices.ContainsFunc(strings.Split(prefix, "/"), badPart):
		err = fmt.Errorf("found the prefix %q, want names with slashes between, of letters, digits and . _ -", prefix)
	default:
		err = checkBucket(bucket)
	}
	if err != nil {
		return "", "", fmt.Errorf("%.600q: %w: want %sBUCKET or %sBUCKET/PREFIX", address, err, Scheme, Scheme)
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

// badPart reports whether a part of a prefix is one that stores, or shells, take for something else.
func badPart(part string) bool {
	return part == "" || strings.Trim(part, ".") == "" ||
		strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-=+@") != ""
}

// String is the address.
func (s *Store) String() string { return Scheme + strings.TrimSuffix(s.bucket+"/"+s.prefix, "/") }

// Close gives the connections up. A lock is to be given back before.
func (s *Store) Close() { s.transport.base.CloseIdleConnections() }

// key is a blob's name in the bucket.
func (s *Store) key(name string) string { return s.prefix + name }

// newTransport is made as http.DefaultTransport is, but that connections aren't shared with others.
func newTransport() *transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = flights + 2 // the parts of a blob, the lock's renewal, and what else is asked
	base.DisableCompression = true         // a blob is what was stored
	return &transport{base: base}
}
