// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/metastore"
)

// Client is a home's store, as people see it: a metastore.Backend without sessions and without Append.
type Client struct {
	address string
	url     string
	reach   *reach
	user    string // as Who has found out
	http    *http.Client
	gate    *circuit.Gate // of all tries
	closed  chan struct{}
	once    sync.Once
}

var _ metastore.Guarded = (*Client)(nil)

// Times of a client.
const (
	againGap = 200 * time.Millisecond // between two tries at a door that isn't there
	lookGap  = 2 * time.Second        // between two looks of a feed
)

// Dial makes a client of the door at HOST:PORT. It doesn't wait: a door that isn't there is waited for by each call.
func Dial(address string, s Security) (*Client, error) {
	r, err := s.reaches(address)
	if err != nil {
		return nil, err
	}
	c := &Client{address: address, url: "http://" + address + "/v1", reach: r, gate: circuit.NewGate(),
		closed: make(chan struct{})}
	if r.config != nil {
		c.url = "https://" + address + "/v1"
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: r.config, Proxy: nil, MaxConnsPerHost: 4,
		TLSHandshakeTimeout: readTime, ResponseHeaderTimeout: answerTime}}
	return c, nil
}

// do asks the door, again while it isn't there; sure tells that what failed wasn't done.
func (c *Client) do(ctx context.Context, ask *request) (r reply, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return r, err
	}
	began := time.Now()
	for what := circuit.First; ; what = circuit.Second {
		try, why := c.gate.Pass(ctx, c.closed, what)
		if why != nil {
			return r, c.over(ctx, began, why)
		}
		r, err = c.ask(ctx, text)
		try.Done(resultOf(ctx, err), err)
		if err == nil {
			if r.Error != nil {
				return r, r.Error.error()
			}
			return r, nil
		}
		refused := (*net.OpError)(nil)
		sent := !errors.As(err, &refused) || refused.Op != "dial"
		wrong := (*statusError)(nil)
		switch {
		case errors.As(err, &wrong):
			return r, err
		case unlike(err):
			return r, c.reach.explain(err, c.address)
		case sent && ask.Do == "commit":
			return r, fmt.Errorf("the door %s: %w: %w", c.address, metastore.ErrUnknown, err)
		}
		select {
		case <-time.After(againGap):
		case <-c.closed:
			return r, metastore.ErrClosed
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also when the gap is over as well
			return r, c.over(ctx, began, err)
		}
	}
}

// over is the end of a call that nobody waits for any more, with why it hasn't been answered.
func (c *Client) over(ctx context.Context, began time.Time, why error) error {
	if ctx.Err() == nil {
		return metastore.ErrClosed
	}
	return fmt.Errorf("%w: the door %s: tried for %v: %w", metastore.ErrUnavailable, c.address,
		time.Since(began).Round(time.Millisecond), why)
}

// resultOf is what a try has come to: any answer is one that it is.
func resultOf(ctx context.Context, err error) circuit.Result {
	wrong := (*statusError)(nil)
	switch {
	case err == nil, errors.As(err, &wrong), unlike(err):
		return circuit.Succeeded
	case ctx.Err() != nil:
		return circuit.Neither // nobody waits for it any more
	}
	return circuit.HasFailed
}

// statusError is what a door, or somebody else at its address, says to a request that it doesn't know.
type statusError struct{ text string }

// Error is what was said.
func (e *statusError) Error() string { return e.text }

// ask asks once.
func (c *Client) ask(ctx context.Context, text []byte) (r reply, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(text))
	if err != nil {
		return r, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(header, version)
	if c.reach.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.reach.token)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why := make([]byte, 1_000)
		n, _ := io.ReadFull(answer.Body, why) // as much as there is
		why = why[:n]
		if bytes.Contains(why, []byte("HTTP request to an HTTPS server")) {
			why = []byte("it speaks TLS: --door-tls instead of --insecure")
		}
		return r, &statusError{fmt.Sprintf("the door %s answers %s: %s", c.address, answer.Status,
			strings.TrimSpace(string(why)))}
	}
	return r, json.NewDecoder(io.LimitReader(answer.Body, replyMost)).Decode(&r)
}

// Who asks the door who this client is, so that User knows it. It is called before anything else. ErrDenied says what a
// door wants to be shown, or that this user has no role there.
func (c *Client) Who(ctx context.Context) error {
	r, err := c.do(ctx, &request{Do: "who"})
	if other := (*otherError)(nil); errors.As(err, &other) {
		return nil // a door of an earlier build asks nobody
	}
	c.user = r.User
	return err
}

// User implements metastore.Guarded.
func (c *Client) User() (name, id string) { return c.user, "" }

// UserID implements metastore.Guarded.
func (c *Client) UserID(string, string) (string, error) { return "", errRoles }

// CertificateID implements metastore.Guarded.
func (c *Client) CertificateID(string) string { return "" }

// Protect implements metastore.Guarded: it is refused.
func (c *Client) Protect(context.Context, *metastore.Access, map[string]string, func()) ([]string, error) {
	return nil, errRoles
}

// Abide implements metastore.Guarded.
func (c *Client) Abide(*metastore.Access) {}

var errRoles = fmt.Errorf("%w: roles are given at the door's home: name its store", metastore.ErrDenied)

// Get implements metastore.Backend.
func (c *Client) Get(ctx context.Context, path string) (n metastore.Node, err error) {
	r, err := c.do(ctx, &request{Do: "get", Path: path})
	if err != nil || r.Node == nil {
		return n, err
	}
	return *r.Node, nil
}

// Children implements metastore.Backend.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	r, err := c.do(ctx, &request{Do: "children", Path: path})
	return r.Names, err
}

// Tree implements metastore.Backend.
func (c *Client) Tree(ctx context.Context, path string) ([]metastore.Leaf, error) {
	r, err := c.do(ctx, &request{Do: "tree", Path: path})
	return r.Leaves, err
}

// Commit implements metastore.Backend. What the door doesn't let people write is ErrDenied.
func (c *Client) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := metastore.CheckCommit(conds, ops); err != nil {
		return err
	}
	ask := &request{Do: "commit", Conds: conds}
	for _, op := range ops {
		if op.Session != nil {
			return errSession
		}
		ask.Ops = append(ask.Ops, operation{op.Path, op.Do, op.Value})
	}
	_, err := c.do(ctx, ask)
	return err
}

var errSession = fmt.Errorf("%w: a door gives no sessions: name the store itself", metastore.ErrDenied)

// Append implements metastore.Backend: it is refused.
func (c *Client) Append(context.Context, string, []byte) (string, error) { return "", errSession }

// Session implements metastore.Backend: it is refused.
func (c *Client) Session(context.Context) (metastore.Session, error) { return nil, errSession }

// Cluster implements metastore.Backend.
func (c *Client) Cluster(context.Context) (string, error) { return "", nil }

// Close implements metastore.Backend.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.http.CloseIdleConnections()
	return nil
}

// Watch implements metastore.Backend: by looking again and again.
func (c *Client) Watch(path string, kind metastore.WatchKind) metastore.Feed {
	return &feed{c: c, path: path, kind: kind, closed: make(chan struct{})}
}

// feed looks again and again.
type feed struct {
	c      *Client
	path   string
	kind   metastore.WatchKind
	last   *metastore.State
	closed chan struct{}
	once   sync.Once
}

// Next implements metastore.Feed.
func (f *feed) Next(ctx context.Context) (metastore.State, error) {
	for {
		if f.last != nil {
			select {
			case <-time.After(lookGap):
			case <-f.closed:
				return metastore.State{}, metastore.ErrClosed
			case <-f.c.closed:
				return metastore.State{}, metastore.ErrClosed
			case <-ctx.Done():
				return metastore.State{}, context.Cause(ctx)
			}
		}
		var now metastore.State
		var err error
		if f.kind == metastore.Data {
			now.Node, err = f.c.Get(ctx, f.path)
		} else {
			now.Names, err = f.c.Children(ctx, f.path)
		}
		if errors.Is(err, metastore.ErrDenied) { // nothing is heard any more: that is its end
			return now, fmt.Errorf("%w: %w", metastore.ErrClosed, err)
		}
		if err != nil && !errors.Is(err, metastore.ErrNoNode) {
			if ctx.Err() != nil || errors.Is(err, metastore.ErrClosed) {
				return now, err
			}
			if f.last == nil {
				f.last = &metastore.State{Names: []string{""}} // which no state is
			}
			continue
		}
		if f.last == nil || f.last.Node.Version != now.Node.Version || !slices.Equal(f.last.Names, now.Names) {
			f.last = &now
			return now, nil
		}
	}
}

// Close implements metastore.Feed.
func (f *feed) Close() { f.once.Do(func() { close(f.closed) }) }
