// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// electionTime without the leader begins an election: quick for people, and far above what a LAN and a busy disk take.
const electionTime = time.Second

// startMax is how long a server waits for others before it gives up.
const startMax = time.Minute

// run is a server's life: open the folder, join, start, wait.
func run(ctx context.Context, o *options) error {
	tls, err := o.tlsConfig()
	if err != nil {
		return err
	}
	password, err := o.password()
	if err != nil {
		return err
	}
	if err := o.checkUsers(); err != nil {
		return err
	}
	d, err := openFolder(o)
	if err != nil {
		return err
	}
	defer d.close()
	o.listen = d.note.Listen
	j := &joiner{options: o, dir: d, tls: tls, password: password}
	if len(o.join) > 0 && d.old {
		if err := j.sameCluster(ctx); err != nil {
			return err
		}
	}
	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	e, err := j.start(ctx, streams)
	if err != nil || e == nil {
		return err
	}
	serveErr := serve(ctx, e, j)
	o.quiet()
	select {
	case <-e.Server.ReadyNotify():
	default: // Close waits for the serving of clients, which begins, and so ends, only when the server is ready
		e.Server.Stop()
	}
	_ = e.Server.TryTransferLeadershipOnShutdown()
	endStreams()
	e.Close()
	return serveErr
}

// config is etcd's configuration.
func (o *options) config(d *folder, streams context.Context, password bool) (*embed.Config, error) {
	listen, err := bindable(d.note.Listen)
	if err != nil {
		return nil, err
	}
	peer, err := bindable(d.note.Peer)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir = d.note.Peer, d.path
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{o.endpoint(listen)}, []url.URL{o.endpoint(d.note.Listen)}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{o.endpoint(peer)}, []url.URL{o.endpoint(d.note.Peer)}
	// With HTTP on the same port, etcd takes gRPC through net/http, which is slower. Nobody needs the HTTP side, which
	// asks for no password: it gets a socket that no network reaches, and finds nothing there.
	c.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Host: "@disco-server-" + rand.Text()}}
	c.UserHandlers = map[string]http.Handler{}
	for _, every := range []string{"/{$}", "/{name}", "/{name}/{rest...}"} {
		c.UserHandlers[every] = http.NotFoundHandler()
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.InitialClusterToken = d.note.Token
	if o.cert != "" {
		c.PeerTLSInfo = transport.TLSInfo{CertFile: o.cert, KeyFile: o.key, TrustedCAFile: o.ca, ClientCertAuth: true}
		c.ClientTLSInfo = c.PeerTLSInfo
		if password { // who has it needs no certificate
			c.ClientTLSInfo = transport.TLSInfo{CertFile: o.cert, KeyFile: o.key}
		}
		c.TlsMinVersion = "TLS1.3"
	}
	// etcd's check has joiners wait until all have been connected for 5 s. A server that joins here doesn't vote until
	// it has the data, and asks to vote when it runs: that needs no more servers than are there.
	c.StrictReconfigCheck = false
	c.TickMs, c.ElectionMs = 100, uint(electionTime/time.Millisecond)
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	c.QuotaBackendBytes = int64(o.quota) << 20
	c.BootstrapDefragThresholdMegabytes = 64
	c.MaxTxnOps = 8192
	c.MaxRequestBytes = 2 << 20
	c.GRPCKeepAliveInterval, c.GRPCKeepAliveTimeout = 30*time.Second, 10*time.Second
	c.EnableGRPCGateway = false
	c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(streams))}
	if err := o.users(c); err != nil {
		return nil, err
	}
	return c, o.logs(c)
}

// endWith ends all streams, which would hold up a stop until it gives up, when ctx ends. What clients see is that the
// server isn't there, so they go on at another.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if ctx.Err() != nil {
			return rpctypes.ErrGRPCStopped
		}
		own, cancel := context.WithCancel(s.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		err := handle(srv, &stream{s, own})
		if err != nil && ctx.Err() != nil {
			return status.Error(codes.Unavailable, rpctypes.ErrorDesc(rpctypes.ErrGRPCStopped))
		}
		return err
	}
}

// stream is a stream whose context ends earlier.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is the earlier one.
func (s *stream) Context() context.Context { return s.ctx }

// serve waits until the server is ready, prints that, and waits for its end.
func serve(ctx context.Context, e *embed.Etcd, j *joiner) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beside.Go(func() { elect(ctx, e) })
	beside.Go(func() { restartAfterStop(ctx, e) })
	waiting := time.After(startMax)
	for ready := e.Server.ReadyNotify(); ready != nil; {
		select {
		case <-ready:
			ready = nil
		case <-waiting:
			fmt.Fprintf(os.Stderr, "disco-server: no majority of its servers has been there for %s: "+
				"start the others (%s)\n", startMax, j.others(e))
			waiting = nil
		case <-ctx.Done():
			return nil
		case err := <-e.Err():
			return ended(err, j.dir)
		case <-e.Server.StopNotify():
			return ended(nil, j.dir)
		}
	}
	if err := j.settle(ctx, e); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	beside.Go(func() { keepRoom(ctx, e, int64(j.quota)<<20) })
	fmt.Printf("ready: --store etcd://%s\n", strings.Join(j.clients(e), ","))
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return ended(err, j.dir)
	case <-e.Server.StopNotify():
		return ended(nil, j.dir)
	}
}

// ended says why etcd has ended by itself.
func ended(err error, d *folder) error {
	if err == nil || strings.Contains(err.Error(), "removed from the cluster") {
		return fmt.Errorf("this server was taken out of its cluster: empty %s and start it with --join to be in again",
			d.path)
	}
	return failure{fmt.Errorf("etcd has ended: %w", err)}
}

// elect makes a server that is alone lead at once: etcd would wait for an election timeout, as if there were others.
func elect(ctx context.Context, e *embed.Etcd) {
	self := uint64(e.Server.MemberID())
	for e.Server.Lead() == 0 && ctx.Err() == nil {
		members := e.Server.Cluster().Members()
		if settled() && len(members) == 1 && uint64(members[0].ID) == self && !members[0].IsLearner {
			now := raftpb.MsgTimeoutNow
			_ = e.Server.Process(ctx, &raftpb.Message{Type: &now, To: &self, From: &self})
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settled tells whether raft has handed on everything that it has found committed. To become a candidate it looks
// through what it hasn't, and panics where etcd has dropped that from its log meanwhile, which it does once it is
// applied.
func settled() bool {
	var s struct{ Commit, Applied uint64 }
	v := expvar.Get("raft.status") // etcd's server keeps raft to itself otherwise
	return v != nil && json.Unmarshal([]byte(v.String()), &s) == nil && s.Applied >= s.Commit
}

// restartAfterStop starts this program anew when it led others and then was stopped for as long as it takes them to
// elect another leader. An etcd that goes on in such a state takes all sessions for ended, since it has seen none of
// them for so long, and has the new leader end them.
func restartAfterStop(ctx context.Context, e *embed.Etcd) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	led, last := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if gap := time.Since(last); led && gap > electionTime {
			fmt.Fprintf(os.Stderr, "disco-server: it led, and was stopped for %s: starts anew\n",
				gap.Round(time.Millisecond))
			err := syscall.Exec("/proc/self/exe", os.Args, os.Environ())
			fmt.Fprintln(os.Stderr, "disco-server: starting anew:", err)
			os.Exit(2)
		}
		last = time.Now()
		led = e.Server.Leader() == e.Server.MemberID() && len(e.Server.Cluster().Members()) > 1
	}
}

// protect makes the store ask for root's password from now on, or checks the password where it asks already.
func protect(ctx context.Context, e *embed.Etcd, password string) error {
	on, err := e.Server.AuthStatus(ctx, &pb.AuthStatusRequest{})
	if err != nil {
		return err
	}
	if on.Enabled {
		_, err := e.Server.Authenticate(ctx, &pb.AuthenticateRequest{Name: "root", Password: password})
		if err != nil {
			return fmt.Errorf("the password in --password-file isn't that of the store's user root: %w", err)
		}
		return nil
	}
	exists := func(err, known error) error {
		if errors.Is(err, known) {
			return nil
		}
		return err
	}
	_, err = e.Server.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Password: password})
	if err = exists(err, errUserExists); err != nil {
		return err
	}
	_, err = e.Server.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: "root"})
	if err = exists(err, errRoleExists); err != nil {
		return err
	}
	if _, err = e.Server.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}); err != nil {
		return err
	}
	_, err = e.Server.AuthEnable(ctx, &pb.AuthEnableRequest{})
	return err
}
