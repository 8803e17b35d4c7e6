// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

var (
	errUserExists = auth.ErrUserAlreadyExist
	errRoleExists = auth.ErrRoleAlreadyExist
)

// joiner talks to the other servers.
type joiner struct {
	*options
	dir      *folder
	tls      *tls.Config
	password string
	running  string // version on which the others' cluster has settled
}

// client is a client of servers at addresses.
func (j *joiner) client(ctx context.Context, addresses []string) (*clientv3.Client, error) {
	c := clientv3.Config{Context: ctx, DialTimeout: 2 * time.Second, TLS: j.tls, Logger: zap.NewNop()}
	for _, a := range addresses {
		u := j.endpoint(a)
		c.Endpoints = append(c.Endpoints, u.String())
	}
	if j.password != "" {
		c.Username, c.Password = "root", j.password
	}
	return clientv3.New(c)
}

// attemptMax is how long an attempt may take, at most; the first ones may take less, because a change of members that
// meets another one is dropped by raft without an answer.
const attemptMax = 5 * time.Second

// try calls f with a client until it gives no error or one that waiting doesn't mend.
func (j *joiner) try(ctx context.Context, addresses []string, f func(context.Context, *clientv3.Client) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for limit, silent := time.Second, true; ; limit = min(2*limit, attemptMax) {
		err := func() error {
			short, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			c, err := j.client(short, addresses)
			if err != nil {
				return err
			}
			defer c.Close()
			return f(short, c)
		}()
		switch {
		case errors.Is(err, rpctypes.ErrUserEmpty):
			return fmt.Errorf("--join %s: the store asks for the password of its user root: give --password-file",
				strings.Join(addresses, ","))
		case errors.Is(err, rpctypes.ErrAuthFailed):
			return fmt.Errorf("--join %s: the password in --password-file isn't that of the store's user root",
				strings.Join(addresses, ","))
		case err == nil || final(err):
			return err
		}
		if tried := time.Since(began); silent && tried > 2*time.Second {
			silent = false
			fmt.Fprintf(os.Stderr, "disco-server: --join %s: no answer for %s, trying for %s: %v\n",
				strings.Join(addresses, ","), tried.Round(time.Second), startMax, err)
		}
		select {
		case <-ctx.Done():
			return failure{fmt.Errorf("--join %s: tried for %s: %w: are these servers running, with the same "+
				"certificates?", strings.Join(addresses, ","), time.Since(began).Round(time.Second), err)}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// refusal is an error that waiting doesn't mend.
type refusal struct{ error }

// final tells whether trying again is useless.
func final(err error) bool {
	if _, ok := errors.AsType[refusal](err); ok {
		return true
	}
	return errors.Is(err, rpctypes.ErrPermissionDenied)
}

// members asks for the list of members.
func members(ctx context.Context, c *clientv3.Client) ([]*pb.Member, uint64, error) {
	r, err := c.MemberList(ctx)
	if err != nil {
		return nil, 0, err
	}
	return r.Members, r.Header.ClusterId, nil
}

// sameCluster refuses to start with the data of one store as a server of another. Servers that can't be reached are
// no reason: all may be starting at once.
func (j *joiner) sameCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := j.client(ctx, j.options.join)
	if err != nil {
		return nil
	}
	defer c.Close()
	list, id, err := members(ctx, c)
	if err != nil {
		return nil
	}
	peer := j.endpoint(j.dir.note.Peer)
	for _, m := range list {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == peer.String() {
			return nil
		}
	}
	return fmt.Errorf("--data %s belongs to another store than --join %s (%x, which doesn't have this server): "+
		"start it without --join, or with an empty folder", j.dir.path, strings.Join(j.options.join, ","), id)
}

// join becomes a member of the running servers' cluster, one that doesn't vote yet, and returns the members as etcd
// wants to know them at the first start.
func (j *joiner) join(ctx context.Context) (cluster string, err error) {
	peer := j.endpoint(j.dir.note.Peer)
	err = j.try(ctx, j.options.join, func(ctx context.Context, c *clientv3.Client) error {
		list, _, err := members(ctx, c)
		if err != nil {
			return err
		}
		known := false
		for _, m := range list {
			if len(m.PeerURLs) == 0 || m.PeerURLs[0] != peer.String() {
				continue
			}
			known = m.Name == ""
			if !known {
				// It ran, and its data is gone; the port is ours, so it can't be running.
				if _, err := c.MemberRemove(ctx, m.ID); err != nil {
					return err
				}
			}
		}
		if !known {
			r, err := c.MemberAddAsLearner(ctx, []string{peer.String()})
			if err != nil {
				return err
			}
			list = r.Members
		}
		cluster = memberNames(list, peer, j.dir.note.Peer)
		j.running, err = j.settledOn(ctx, list)
		return err
	})
	return cluster, err
}

// memberNames writes members as etcd's --initial-cluster.
func memberNames(list []*pb.Member, self url.URL, name string) string {
	var text []string
	for _, m := range list {
		for _, u := range m.PeerURLs {
			if u == self.String() {
				text = append(text, name+"="+u)
			} else {
				text = append(text, fmt.Sprintf("m%x=%s", m.ID, u))
			}
		}
	}
	return strings.Join(text, ",")
}

// settle makes a learner a voter, and sees to the password.
func (j *joiner) settle(ctx context.Context, e *embed.Etcd) error {
	if e.Server.IsLearner() {
		id := uint64(e.Server.MemberID())
		var others []string
		for _, a := range j.clients(e) {
			if a != j.listen {
				others = append(others, a)
			}
		}
		err := j.try(ctx, others, func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.MemberPromote(ctx, id)
			if errors.Is(err, rpctypes.ErrMemberNotLearner) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if j.password != "" {
		ctx, cancel := context.WithTimeout(ctx, startMax)
		defer cancel()
		if err := protect(ctx, e, j.password); err != nil {
			return err
		}
	}
	if j.dir.note.Etcd != etcdVersion {
		j.dir.note.Etcd = etcdVersion
		return j.dir.write()
	}
	return nil
}

// clients are the addresses for clients of all members, this server's first.
func (j *joiner) clients(e *embed.Etcd) []string {
	list := []string{j.listen}
	for _, m := range e.Server.Cluster().Members() {
		for _, text := range m.ClientURLs {
			if u, err := url.Parse(text); err == nil && u.Host != j.listen {
				list = append(list, u.Host)
			}
		}
	}
	return list
}

// others names the peers that this server waits for.
func (j *joiner) others(e *embed.Etcd) string {
	var list []string
	for _, m := range e.Server.Cluster().Members() {
		if m.ID != e.Server.MemberID() {
			list = append(list, m.PeerURLs...)
		}
	}
	return strings.Join(list, ", ")
}
