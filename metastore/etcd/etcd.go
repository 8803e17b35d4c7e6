// SPDX-License-Identifier: Apache-2.0

// Package etcd is the metadata store's engine for etcd 3.5 or later: one's own (disco-server), or one that is there.
//
// It stands on leases and transactions of etcd's client, and not on the client's package concurrency, whose waits
// outlive their sessions and whose locks know no fencing.
//
// Guarantee: it does what metastore.Backend asks for. A key is a node's path; every request that reads is
// linearizable, and what is read after a reconnect is never older than what was read before.
//
//	b, err := etcd.New(ctx, etcd.Options{Endpoints: []string{"127.0.0.1:2379"}})
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/peer"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// defaultTTL is how long a server waits for a silent client, where nothing else is said.
const defaultTTL = 10 * time.Second

// Options say which servers, and as whom.
type Options struct {
	Endpoints []string    // HOST:PORT of one or more servers of one cluster
	TLS       *tls.Config // nil: none
	User      string      // with Password; "" where the store asks for none
	Password  string
	TTL       time.Duration // a session's; whole seconds, rounded up; 0: 10 s. Servers may grant more.

	// Report gets what goes wrong where no caller waits: a server of another cluster. It may be nil.
	Report func(problem error)
}

// Backend is a client of etcd: a metastore.Backend.
type Backend struct {
	options   Options
	client    *clientv3.Client
	identity  identity
	foreign   foreigners
	hints     hints
	certified string                 // the user that the server takes this client for by its certificate; "" is none
	readable  atomic.Pointer[string] // a path that this user may read, as far as is known
	gather    gather
	gate      *circuit.Gate // of all tries but the session's, which nothing may hold up
	closing   sync.Once
	ended     context.Context // done when Close begins; its requests fail at servers that have no leader
	end       context.CancelFunc
	all       sync.WaitGroup // feeds, sessions, verify

	turn    chan struct{} // holds one token; whoever has it may look at session and make one
	session *session
}

var _ metastore.Backend = (*Backend)(nil)

// New makes a client. Where there is a password it waits until a server has accepted it, or until ctx ends
// (ErrUnavailable, ErrDenied); without one the first call shows whether the servers can be reached. The caller closes
// it.
func New(ctx context.Context, o Options) (*Backend, error) {
	if len(o.Endpoints) == 0 {
		return nil, fmt.Errorf("etcd: no address of a server is given")
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	o.Endpoints = slices.Compact(slices.Sorted(slices.Values(o.Endpoints)))
	b := &Backend{options: o, gate: circuit.NewGate(), turn: make(chan struct{}, 1)}
	b.foreign.turn, b.foreign.seen = make(chan struct{}, 1), map[string]uint64{}
	b.foreign.turn <- struct{}{}
	b.ended, b.end = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	b.identity.init(b.ended)
	root := "/"
	b.readable.Store(&root)
	b.turn <- struct{}{}
	err := b.retry(ctx, func(ctx context.Context) (_ *pb.ResponseHeader, err error) {
		b.client, err = dial(ctx, o, b.connect)
		return nil, err
	})
	if err == nil {
		if err = b.certificate(ctx); err != nil {
			err = errors.Join(err, b.client.Close())
		}
	}
	if err != nil {
		b.end()
		return nil, err
	}
	b.all.Go(b.verify)
	return b, nil
}

// dial makes the client, silent, with connections that are tried again soon.
func dial(ctx context.Context, o Options, connect func(ctx context.Context, addr string) (net.Conn, error)) (
	*clientv3.Client, error) {
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	// What the client does by itself, asking for a token, has the journey too, and not the end of ctx.
	own := context.WithValue(context.Background(), journeyKey{}, ctx.Value(journeyKey{}))
	c := clientv3.Config{Context: own, TLS: o.TLS, Username: o.User, Password: o.Password, Logger: zap.NewNop(),
		// gRPC pings no more often than every 10 s. It finds connections that are silently cut.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(noteJourney), grpc.WithContextDialer(connect),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5,
					MaxDelay: 2 * time.Second}})}}
	for _, e := range o.Endpoints {
		c.Endpoints = append(c.Endpoints, scheme+e)
	}
	if until, ok := ctx.Deadline(); ok {
		c.DialTimeout = max(time.Until(until), time.Millisecond) // of asking for a token
	}
	return clientv3.New(c)
}

// journeyKey is the key of a *journey in a context.
type journeyKey struct{}

// journey is what became of a request, which etcd's client doesn't tell.
type journey struct {
	sent bool  // it had a connection: one that had none was done by nobody
	err  error // with gRPC's own words why there is no connection
}

// noteJourney fills in the journey of a context that has one.
func noteJourney(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	options ...grpc.CallOption) error {
	j, ok := ctx.Value(journeyKey{}).(*journey)
	if !ok {
		return call(ctx, method, request, reply, conn, options...)
	}
	var p peer.Peer
	err := call(ctx, method, request, reply, conn, append(options, grpc.Peer(&p))...)
	j.sent, j.err = j.sent || err == nil || p.Addr != nil, err
	return err
}

// Cluster names the cluster, and refuses one whose servers are too old.
func (b *Backend) Cluster(ctx context.Context) (name string, err error) {
	n := 0
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		endpoint := b.client.Endpoints()[n%len(b.options.Endpoints)]
		n++
		r, err := b.client.Status(ctx, endpoint)
		if err != nil {
			return nil, err
		}
		var major, minor int
		_, err = fmt.Sscanf(r.Version, "%d.%d", &major, &minor)
		if err != nil || major < 3 || major == 3 && minor < 5 {
			return nil, fmt.Errorf("etcd at %s has version %q: 3.5 or later is needed", endpoint, r.Version)
		}
		name = fmt.Sprintf("etcd-%016x", r.Header.ClusterId)
		return nil, nil
	})
	return name, err
}

// Trouble is why no server is asked now, since none has answered several times, or nil.
func (b *Backend) Trouble() error { return b.gate.Trouble() }

// Close ends the session, everything that waits, and the connections.
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.end()
		<-b.turn // nobody makes a session any more
		if s := b.session; s != nil {
			<-s.lost
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_, _ = b.client.Revoke(ctx, s.lease) // if that fails, the lease's time ends it
			cancel()
		}
		b.turn <- struct{}{}
		_ = b.client.Close() // what it reports is that it was closed
		b.all.Wait()
	})
	return nil
}

// prefix is how the keys of a node's children begin.
func prefix(path string) string { return strings.TrimSuffix(path, "/") + "/" }

// after is the first key that sorts after all below a node.
func after(path string) string { return strings.TrimSuffix(path, "/") + "0" } // '0' follows '/'
