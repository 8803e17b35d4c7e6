// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// session is a lease that is kept alive. A server counts the TTL from when it gets the request, or, after the lease was
// taken over by another leader, from later on; here it counts from before the request was made. So this side is always
// the first to take the session for ended.
type session struct {
	backend *Backend
	lease   clientv3.LeaseID
	ttl     time.Duration
	gone    chan struct{} // has a token when a request has found that the lease is gone
	lost    chan struct{}
}

// ID is the lease's number.
func (s *session) ID() string { return fmt.Sprintf("%016x", int64(s.lease)) }

// TTL is as granted.
func (s *session) TTL() time.Duration { return s.ttl }

// Lost is closed at the session's end.
func (s *session) Lost() <-chan struct{} { return s.lost }

// alive tells whether the session isn't lost.
func (s *session) alive() bool {
	select {
	case <-s.lost:
		return false
	default:
		return true
	}
}

// Session returns the session that lives, or makes one.
func (b *Backend) Session(ctx context.Context) (metastore.Session, error) {
	began := time.Now()
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-b.ended.Done():
		return nil, metastore.ErrClosed
	case <-ctx.Done():
		return nil, b.unavailable(ctx, began, errors.New("another call is making a session"))
	}
	if b.ended.Err() != nil {
		return nil, metastore.ErrClosed
	}
	if b.session != nil && b.session.alive() {
		return b.session, nil
	}
	s := &session{backend: b, gone: make(chan struct{}, 1), lost: make(chan struct{})}
	var sent time.Time
	err := b.retryAs(ctx, circuit.Urgent, func(ctx context.Context) (*pb.ResponseHeader, error) {
		sent = time.Now()
		r, err := b.client.Grant(ctx, int64((b.options.TTL+time.Second-1)/time.Second))
		if err != nil {
			return nil, err
		}
		s.lease, s.ttl = r.ID, time.Duration(r.TTL)*time.Second
		return r.ResponseHeader, nil
	})
	if err != nil {
		return nil, err
	}
	b.session = s
	b.all.Go(func() { s.keep(sent) })
	return s, nil
}

// keepAgain is the time until a request that wasn't answered is followed by the next one, at first, the half of it
// random; it doubles, up to a twentieth of the session's.
const keepAgain = 50 * time.Millisecond

// keep keeps the lease alive until it is lost, or the client is closed. A request that isn't answered is followed by
// one to the next server while there is time.
func (s *session) keep(sent time.Time) {
	b := s.backend
	until := sent.Add(s.ttl)
	wait, again := s.ttl/3, keepAgain
	for {
		timer := time.NewTimer(min(wait, time.Until(until)))
		select {
		case <-b.identity.same.Done():
			timer.Stop()
			close(s.lost)
			return
		case <-s.gone:
			timer.Stop()
			s.abandon()
			return
		case <-timer.C:
		}
		began := time.Now()
		if !began.Before(until) {
			s.abandon()
			return
		}
		ctx, cancel := context.WithTimeout(b.ended, min(max(s.ttl/6, 300*time.Millisecond), until.Sub(began)))
		_, err := b.client.KeepAliveOnce(ctx, s.lease)
		cancel()
		switch {
		case err == nil:
			until, wait, again = began.Add(s.ttl), s.ttl/3, keepAgain
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.abandon()
			return
		default:
			wait = again/2 + rand.N(again/2)
			again = min(2*again, max(s.ttl/20, keepAgain))
		}
	}
}

// abandon ends the session. What the lease still holds goes when a server can be reached, so that its nodes can be made
// again, or else with the lease's time.
func (s *session) abandon() {
	close(s.lost)
	ctx, cancel := context.WithTimeout(s.backend.ended, s.ttl)
	defer cancel()
	_, _ = s.backend.client.Revoke(ctx, s.lease)
}

// forget ends the session, because a server doesn't know it any more.
func (s *session) forget() {
	select {
	case s.gone <- struct{}{}:
	default:
	}
}
