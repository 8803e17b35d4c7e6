// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// caller is who has sent a request.
type caller struct {
	name string          // "": nobody has given roles, and it isn't known
	is   *metastore.User // with its rights; nil: nobody has given roles
	from string          // the address
}

// caller finds out who has sent a request, and refuses who may do nothing. Who may do what is read for each request, so
// that what was taken away is away from the next request on.
func (s *Server) caller(ctx context.Context, r *http.Request) (*caller, error) {
	certified, shown := "", false
	if r.TLS != nil && s.o.Peer != nil {
		var err error
		if certified, err = s.o.Peer(r.TLS); err != nil {
			return nil, denied("%v", err)
		}
		shown = len(r.TLS.VerifiedChains) > 0
	}
	if certified != "" {
		if err := metastore.CheckUser(certified); err != nil { // it is part of keys
			return nil, denied("the certificate: %v", err)
		}
	}
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	access, err := s.access(ctx)
	if err != nil {
		return nil, err
	}
	c := &caller{name: certified, from: "from " + r.RemoteAddr}
	switch {
	case access == nil && token != "":
		return nil, denied("found a token, and nobody has given roles at this door: leave --token-file out")
	case access == nil && s.o.TLS != nil && !shown:
		return nil, denied("found neither a certificate nor a token: want --door-tls with the folder of a certificate")
	case access == nil:
		return c, nil
	case token != "":
		if c.is = withToken(access, token, time.Now()); c.is == nil {
			return nil, denied("the token is no user's here, or not any more: who gives the roles makes another one")
		}
		if c.name = c.is.Name; certified != "" && certified != c.name {
			return nil, denied("the certificate is that of user %s, and the token that of user %s: want both of one, "+
				"or one of them", certified, c.name)
		}
	case certified == "" && shown:
		return nil, denied("the certificate is that of a machine, and here users have roles: want --door-tls with " +
			"the folder that `certs issue --user NAME` made, or --token-file")
	case certified == "":
		return nil, denied("who is this? Here users have roles: want --door-tls with the folder that `certs issue " +
			"--user NAME` made, or --token-file")
	default:
		c.is = access.Find(certified)
	}
	if c.is == nil {
		return nil, denied("user %.80s has no role at this door: who looks after it gives one: `store roles --grant "+
			"%.80[1]s=see`", c.name)
	}
	return c, nil
}

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: %s", metastore.ErrDenied, fmt.Sprintf(format, args...))
}

// bearer is the token of a request; "" is none.
func bearer(r *http.Request) (string, error) {
	all := r.Header.Values("Authorization")
	if len(all) == 0 {
		return "", nil
	}
	token, ok := strings.CutPrefix(all[0], "Bearer ")
	if !ok || len(all) > 1 || CheckToken(token) != nil {
		return "", denied("found %d headers Authorization, want one, Bearer TOKEN, as --token-file makes it", len(all))
	}
	return token, nil
}

// withToken is the user that has a token, or nil. All are looked at, whichever it is.
func withToken(a *metastore.Access, token string, now time.Time) (found *metastore.User) {
	sum := sha256.Sum256([]byte(token))
	hash := []byte(hex.EncodeToString(sum[:]))
	for i := range a.Users {
		u := &a.Users[i]
		if subtle.ConstantTimeCompare([]byte(u.Token), hash) == 1 ||
			subtle.ConstantTimeCompare([]byte(u.TokenBefore), hash) == 1 && now.Before(u.Until) {
			found = u
		}
	}
	return found
}

// access is who may do what at the home; nil where nobody has said.
func (s *Server) access(ctx context.Context) (*metastore.Access, error) {
	a, _, err := metastore.ReadAccess(ctx, s.o.Home, s.o.Root)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, metastore.ErrUnavailable): // who asks isn't known yet: where the store is isn't told
		return nil, fmt.Errorf("%w: the home's store doesn't answer", metastore.ErrUnavailable)
	}
	return nil, errors.New("who may do what at this door can't be read, and so nothing is done: who looks after its " +
		"home finds out why by asking that store itself")
}

// mayWrite tells whether this caller writes a key so: by what people write, and by the role.
func (c *caller) mayWrite(real, key string, do metastore.OpKind) bool {
	if !mayWrite(key, do, c.name) {
		return false
	}
	return c.is == nil || c.is.MayWrite(real)
}

// refused says why this caller doesn't write a key.
func (c *caller) refused(real, key string, do metastore.OpKind) error {
	if c.is == nil || !mayWrite(key, do, c.name) {
		return refused(key)
	}
	return denied("user %s may %s, and not write %.200s", c.name, c.is.Role, key)
}

// checked holds a commit of a known user against what a user's client writes, and completes it.
func (s *Server) checked(ctx context.Context, c *caller, conds []metastore.Cond, ops []metastore.Op) error {
	if c.name == "" {
		return nil
	}
	in := func(key string) string { return s.o.Root + "/" + key }
	a := &fleet.Acting{User: c.name, From: "by a door, " + c.from, Now: time.Now(),
		Get: func(ctx context.Context, key string) (metastore.Node, error) { return s.o.Home.Get(ctx, in(key)) },
		Names: func(ctx context.Context, key string) ([]string, error) {
			return s.o.Home.Children(ctx, in(key))
		}}
	return a.Check(ctx, conds, ops)
}

// shown is a value as callers see it: that by which users are known isn't for them.
func (s *Server) shown(path string, value []byte) []byte {
	for _, tree := range []string{s.o.Root, s.o.Results} {
		dir := metastore.AccessPath(tree)
		if path != dir && !strings.HasPrefix(path, dir+"/") || value == nil {
			continue
		}
		a := &metastore.Access{}
		if metastore.Raw(path, value).Decode(a) != nil {
			return []byte("d") // a directory, or what nobody can read
		}
		raw, err := a.Shown()
		if err != nil {
			return []byte("d")
		}
		return raw
	}
	return value
}
