// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

const (
	// attemptMin is how long the first attempt of a read waits for its answer; each further one waits for twice as
	// long, up to 16 times. The next attempt goes to the next server.
	attemptMin = time.Second
	// commitMax is how long a commit waits for its answer. An etcd that has lost the leader gives up after 7 s, and a
	// new leader is there after 2.
	commitMax = 3 * time.Second
	pauseMin  = 20 * time.Millisecond
	pauseMax  = time.Second
)

// outcome is what an error says about a request.
type outcome uint8

const (
	refused outcome = iota // nothing was done, and trying again is useless
	again                  // nothing was done
	open                   // it may have been done
)

// learner is what a server says that copies the data and doesn't answer yet.
var learner = rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner)

// judge reads an error of etcd's client.
func judge(err error) (outcome, error) {
	for _, denied := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty,
		rpctypes.ErrUserNotFound} {
		if errors.Is(err, denied) {
			return refused, fmt.Errorf("%w: %w", metastore.ErrDenied, err)
		}
	}
	switch {
	case errors.Is(err, rpctypes.ErrTooManyOps), errors.Is(err, rpctypes.ErrRequestTooLarge), unsendable(err):
		return refused, fmt.Errorf("%w: %w", metastore.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return refused, fmt.Errorf("%w: %w", metastore.ErrSessionLost, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return refused, fmt.Errorf("the store's quota is used up, nothing was written: delete keys; "+
			"disco-server makes room of that within seconds, any other etcd wants `etcdctl compact`, `defrag` and "+
			"`alarm disarm`: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return open, err
	case errors.Is(err, errListAgain), errors.Is(err, rpctypes.ErrTooManyRequests),
		errors.Is(err, rpctypes.ErrNoLeader),
		err.Error() == learner, errors.Is(err, rpctypes.ErrInvalidAuthToken),
		errors.Is(err, rpctypes.ErrAuthOldRevision), errors.Is(err, rpctypes.ErrNotCapable):
		return again, err
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown, codes.Aborted:
		return open, err
	}
	return refused, err
}

// unsendable tells whether a request was too large for gRPC, on this side (2 MiB) or on the server's.
func unsendable(err error) bool {
	return code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// errListAgain is an error of a read that succeeds when it is done again.
var errListAgain = errors.New("what was listed has changed meanwhile")

// compacted makes an error of a further page one after which all pages are read again.
func compacted(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return errListAgain
	}
	return err
}

// code is an error's gRPC code; codes.OK of one that isn't gRPC's.
func code(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.OK
}

// over is why nothing more can be done, or nil.
func (b *Backend) over() error {
	if b.ended.Err() != nil {
		return metastore.ErrClosed
	}
	return b.identity.err()
}

// limited calls f for so long at most, and tells whether it was given up. Its context has no deadline of its own:
// with one, client and server each do more for every request (docs/metastore.md).
func limited(ctx context.Context, j *journey, limit time.Duration,
	f func(context.Context) (*pb.ResponseHeader, error)) (h *pb.ResponseHeader, late bool, err error) {
	attempt, cancel := context.WithCancel(context.WithValue(ctx, journeyKey{}, j))
	defer cancel()
	timer := time.AfterFunc(limit, cancel)
	defer timer.Stop()
	h, err = f(attempt)
	late = attempt.Err() != nil
	if err != nil && late && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %v: %w", limit, err)
	}
	return h, late, err
}

// retry calls f, which may be done more than once, until it succeeds or can't.
func (b *Backend) retry(ctx context.Context, f func(context.Context) (*pb.ResponseHeader, error)) error {
	return b.retryAs(ctx, circuit.Second, f)
}

// retryAs is retry; again is what its tries behind the first one are.
func (b *Backend) retryAs(ctx context.Context, again circuit.Tries,
	f func(context.Context) (*pb.ResponseHeader, error)) error {
	began := time.Now()
	var last error
	for n := 0; ; n++ {
		if err := b.over(); err != nil {
			return err
		}
		kind := again
		if errors.Is(last, errListAgain) && again == circuit.Second {
			kind = circuit.Shared // that isn't the servers' fault
		}
		try, err := b.pass(ctx, n, kind, began, last)
		if err != nil {
			return err
		}
		var j journey
		before := b.identity.revision.Load()
		h, late, err := limited(ctx, &j, attemptMin<<min(n, 4), f)
		try.judge(ctx, err)
		if wrong := b.identity.check(h, before); err == nil || wrong != nil {
			return wrong
		}
		how, err := judge(err)
		if how == refused && b.ended.Err() == nil {
			return err
		}
		last = j.reason(err)
		if err := b.pause(ctx, n, late, began, last); err != nil {
			return err
		}
	}
}

// passed is a try that the gate has let through.
type passed struct{ *circuit.Try }

// pass waits for the gate before attempt n, behind one that failed with last.
func (b *Backend) pass(ctx context.Context, n int, again circuit.Tries, began time.Time, last error) (passed, error) {
	what := circuit.First
	if n > 0 || again == circuit.Urgent {
		what = again
	}
	try, err := b.gate.Pass(ctx, b.ended.Done(), what)
	switch {
	case err == nil:
		return passed{try}, nil
	case b.ended.Err() != nil:
		return passed{}, metastore.ErrClosed
	case errors.Is(err, circuit.ErrBudget) && last != nil:
		err = fmt.Errorf("%w; %w", last, err)
	}
	return passed{}, b.unavailable(ctx, began, err)
}

// judge notes what a try says of the servers: one that refuses has answered.
func (p passed) judge(ctx context.Context, err error) {
	how := refused
	if err != nil {
		how, _ = judge(err)
	}
	switch {
	case how == refused, errors.Is(err, errListAgain):
		p.Done(circuit.Succeeded, nil)
	case ctx.Err() != nil:
		p.Done(circuit.Neither, nil) // nobody waits for it any more
	default:
		p.Done(circuit.HasFailed, err)
	}
}

// pause waits before the attempt after attempt n, which failed with err; not if that one was late, and has waited. It
// fails when the context or the client has ended.
func (b *Backend) pause(ctx context.Context, n int, late bool, began time.Time, err error) error {
	wait := min(pauseMin<<min(n, 10), pauseMax)
	wait = wait/2 + rand.N(wait)
	if late {
		wait = 0
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-b.ended.Done():
	case <-ctx.Done():
	case <-timer.C:
	}
	switch { // what has ended counts when the time is over as well
	case b.ended.Err() != nil:
		return metastore.ErrClosed
	case ctx.Err() != nil:
		return b.unavailable(ctx, began, err)
	}
	return nil
}

// reason is why a request had no connection, or else what its error says.
func (j *journey) reason(err error) error {
	if j.sent || j.err == nil {
		return err
	}
	return errors.New(status.Convert(j.err).Message())
}

// unavailable says for how long servers were tried.
func (b *Backend) unavailable(ctx context.Context, began time.Time, err error) error {
	return fmt.Errorf("%w: tried etcd at %s for %v: %w (%w)", metastore.ErrUnavailable,
		strings.Join(b.options.Endpoints, ","), time.Since(began).Round(time.Millisecond), err, context.Cause(ctx))
}

// once calls f, which must not be done twice, again only while it is certain that no server has done it.
func (b *Backend) once(ctx context.Context, f func(context.Context) (*pb.ResponseHeader, error)) error {
	began := time.Now()
	var last error
	for n := 0; ; n++ {
		if err := b.over(); err != nil {
			return err
		}
		try, err := b.pass(ctx, n, circuit.Second, began, last)
		if err != nil {
			return err
		}
		var j journey
		before := b.identity.revision.Load()
		h, _, err := limited(ctx, &j, commitMax, f)
		try.judge(ctx, err)
		if wrong := b.identity.check(h, before); err == nil || wrong != nil {
			return wrong
		}
		how, err := judge(err)
		switch {
		case how == open && j.sent:
			err = fmt.Errorf("%w: %w", metastore.ErrUnknown, err)
			if b.ended.Err() != nil {
				err = fmt.Errorf("%w: %w", metastore.ErrClosed, err)
			}
			return err
		case how == refused && b.ended.Err() == nil:
			return err
		}
		last = j.reason(err)
		if err := b.pause(ctx, n, false, began, last); err != nil {
			return err
		}
	}
}
