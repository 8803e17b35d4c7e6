// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/metastore"
)

var _ metastore.Guarded = (*Backend)(nil)

// What one may do with a node. Who may make or delete one is said by its parent.
const (
	mayRead   = 1
	mayWrite  = 2
	mayCreate = 4
	mayDelete = 8
	mayAll    = 31 // and change who may
)

// grant is what one entry of a node's list allows, and to whom.
type grant struct {
	perms      int32
	scheme, id string
}

// acl reads the list of a node.
func (a *answer) acl() []grant {
	n := int(a.int32())
	if n < 0 || n > len(a.rest)/12 {
		a.bad = true
		return nil
	}
	list := make([]grant, n)
	for i := range list {
		list[i] = grant{a.int32(), string(a.bytes()), string(a.bytes())}
	}
	return list
}

// passwordLeast is how long passwords must be: users of a group can read what ZooKeeper has of them, and could try all
// short ones.
const passwordLeast = 16

// User is who this client is: by its password, or by the certificate of a user. ZooKeeper goes by both without being
// told; where it doesn't look at certificates everything is refused that needs one.
func (b *Backend) User() (name, id string) {
	if b.o.User == "" && b.certified != "" {
		return b.certified, b.CertificateID(b.certified)
	}
	return b.o.User, b.owner
}

// byCertificate begins the ids of those who are known by certificates. No id of a name and a password has a space.
const byCertificate = "x509 "

// CertificateID is the name that ZooKeeper has of the certificate of a user.
func (b *Backend) CertificateID(user string) string {
	return byCertificate + certs.UserName(user).String()
}

// granted is an entry for who is known by an id.
func granted(perms int32, id string) grant {
	if name, ok := strings.CutPrefix(id, byCertificate); ok {
		return grant{perms, "x509", name}
	}
	return grant{perms, "digest", id}
}

// UserID is what ZooKeeper has of a user and a password.
func (b *Backend) UserID(user, password string) (string, error) {
	if len(password) < passwordLeast {
		return "", fmt.Errorf("user %s: found a password of %d bytes, want at least %d: users of ZooKeeper can read a "+
			"hash of it", user, len(password), passwordLeast)
	}
	return owner(user, password), nil
}

// Abide has all that is made from now on be under an access.
// One that names no administrator is for doors alone.
func (b *Backend) Abide(a *metastore.Access) {
	if a.Admin.ID != "" {
		b.access.Store(a)
	}
}

// grants are who may use a node that this client makes: by the access, or whoever has shown the name and password of
// this client's user, or everybody if there is none. The scheme "auth" would do with fewer bytes, but it also lets in
// who shows the same certificate.
func (b *Backend) grants(path string) []grant {
	if a := b.access.Load(); a != nil && a.About(path) {
		return grantsOf(a, path)
	}
	if b.owner == "" {
		return []grant{{mayAll, "world", "anyone"}}
	}
	return []grant{{mayAll, "digest", b.owner}}
}

// grantsOf are who may use a node under an access.
func grantsOf(a *metastore.Access, path string) []grant {
	list := []grant{granted(mayAll, a.Admin.ID)}
	for i := range a.Users {
		u := &a.Users[i]
		perms := int32(mayRead)
		if u.MayWrite(path) {
			perms |= mayWrite | mayCreate | mayDelete
		} else if u.MayAdd(path) {
			perms |= mayCreate
		}
		list = append(list, granted(perms, u.ID))
	}
	return list
}

// passesMost is how often Protect looks at all nodes: clients may make some meanwhile as they did before.
const passesMost = 10

// Protect gives all nodes the lists that they should have, until none has another one.
func (b *Backend) Protect(ctx context.Context, a *metastore.Access, _ map[string]string, step func()) (changed []string,
	err error) {
	all := 0
	for range passesMost {
		n := 0
		for _, tree := range a.Trees {
			one, err := b.protectTree(ctx, a, tree, step)
			if n += one; err != nil {
				return changed, err
			}
		}
		if all += n; n == 0 {
			break
		}
	}
	if all > 0 {
		changed = append(changed, fmt.Sprintf("lists of %d nodes", all))
	}
	return changed, nil
}

// protectTree gives the nodes of a tree their lists, and counts those that had another one.
func (b *Backend) protectTree(ctx context.Context, a *metastore.Access, tree string, step func()) (changed int,
	err error) {
	foreign, first := 0, ""
	err = b.attempt(ctx, func(c *conn) error {
		foreign = 0
		for todo := []string{tree}; len(todo) > 0; {
			paths := todo[:min(128, len(todo))]
			todo = todo[len(paths):]
			n, denied, err := b.protectNodes(ctx, c, a, paths)
			if changed += n; err != nil {
				return err
			}
			if foreign += len(denied); first == "" && len(denied) > 0 {
				first = denied[0]
			}
			below, err := b.below(ctx, c, slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
				return slices.Contains(denied, path)
			}))
			if err != nil {
				return err
			}
			todo = append(todo, below...)
			step()
		}
		return nil
	})
	if err == nil && foreign > 0 {
		err = fmt.Errorf("%w: %d nodes are another user's, who alone can change that (%s): do this as the user who "+
			"made them, or remove them", metastore.ErrDenied, foreign, first)
	}
	return changed, err
}

// protectNodes gives some nodes their lists, and says which of them this user can't change.
func (b *Backend) protectNodes(ctx context.Context, c *conn, a *metastore.Access, paths []string) (changed int,
	denied []string, err error) {
	calls := make([]*call, len(paths))
	for i, path := range paths {
		calls[i] = newCall(opGetACL, request(opGetACL).text(path))
	}
	if _, err := c.do(ctx, calls...); err != nil {
		return 0, nil, err
	}
	var sets []*call
	var set []string
	for i, path := range paths {
		want := grantsOf(a, path)
		if calls[i].code == codeOK && same(calls[i].acl, want) {
			continue
		}
		sets = append(sets, newCall(opSetACL, request(opSetACL).text(path).acl(want).int32(anyVersion)))
		set = append(set, path)
	}
	if len(sets) == 0 {
		return 0, nil, nil
	}
	if _, err := c.do(ctx, sets...); err != nil {
		return 0, nil, err
	}
	for i, call := range sets {
		switch err := refused(set[i], call.code); {
		case err == nil:
			changed++
		case call.code == codeNoNode:
		case errors.Is(err, metastore.ErrDenied):
			denied = append(denied, set[i])
		default:
			return changed, denied, err
		}
	}
	return changed, denied, nil
}

// same tells whether two lists allow the same.
func same(a, b []grant) bool {
	sorted := func(list []grant) []grant {
		return slices.SortedFunc(slices.Values(list), func(a, b grant) int {
			return cmp.Or(strings.Compare(a.scheme, b.scheme), strings.Compare(a.id, b.id))
		})
	}
	return slices.Equal(sorted(a), sorted(b))
}
