// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/disco-sim/disco/metastore"
)

var _ metastore.Guarded = (*Backend)(nil)

// User is who this client is: by its password, or by its certificate where the server goes by that. etcd knows users by
// their names.
func (b *Backend) User() (name, id string) { return cmp.Or(b.options.User, b.certified), "" }

// CertificateID is "": etcd goes by the common name.
func (b *Backend) CertificateID(string) string { return "" }

// certificate finds out whether the server takes this client for the user that its certificate names.
func (b *Backend) certificate(ctx context.Context) error {
	if b.options.User != "" || b.options.TLS == nil || len(b.options.TLS.Certificates) == 0 ||
		b.options.TLS.Certificates[0].Leaf == nil {
		return nil
	}
	name := b.options.TLS.Certificates[0].Leaf.Subject.CommonName
	if name == "" {
		return nil
	}
	api := pb.NewAuthClient(b.client.ActiveConnection())
	status, err := ask(ctx, b, api.AuthStatus, &pb.AuthStatusRequest{})
	if errors.Is(err, metastore.ErrUnavailable) || err == nil && !status.Enabled {
		return nil // the first call shows the one; by the other it asks nobody who they are
	}
	if err == nil {
		_, err = ask(ctx, b, api.UserGet, &pb.AuthUserGetRequest{Name: name})
	}
	switch {
	case err == nil, errors.Is(err, rpctypes.ErrUserNotFound): // of a user that isn't there everything is refused
		b.certified = name
		return nil
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: the store asks who this is, and doesn't go by the certificate of %.80q: name a user "+
			"with a password in the URL, or have the store know users by certificates (disco-server --users-ca, etcd "+
			"--client-cert-auth): %w", metastore.ErrDenied, name, err)
	}
	return err
}

// UserID is "": etcd keeps passwords itself.
func (b *Backend) UserID(string, string) (string, error) { return "", nil }

// Abide does nothing: what a client makes is under the rights of all users by where it is.
func (b *Backend) Abide(*metastore.Access) {}

// roleName is the name of the role that one user of a group has: each has one of its own.
func roleName(a *metastore.Access, user string) string { return rolePrefix(a) + user }

func rolePrefix(a *metastore.Access) string { return "disco:" + a.Trees[0] + ":" }

// permission is one of a role's.
type permission struct {
	key, end string // from key, below end; end "" is the key alone
	how      authpb.Permission_Type
}

// permissions are what a user's role has: all trees, and the keys above them, may be read.
func permissions(a *metastore.Access, u *metastore.User) (all []permission) {
	read, write := authpb.READ, authpb.READWRITE
	add := func(p permission) {
		if !slices.ContainsFunc(all, func(q permission) bool { return p.key == q.key && p.end == q.end }) {
			all = append(all, p)
		}
	}
	for _, r := range u.Rights {
		how := read
		if r.Write {
			how = write
		}
		if r.Names != "" {
			names := prefix(r.Path) + r.Names
			add(permission{names, clientv3.GetPrefixRangeEnd(names), how})
			continue
		}
		add(permission{r.Path, "", how})
		if r.Key {
			continue
		}
		from := prefix(r.Path)
		for _, e := range slices.Sorted(slices.Values(r.Except)) {
			add(permission{from, e, how})
			from = after(e)
		}
		add(permission{from, after(r.Path), how})
	}
	for _, tree := range a.Trees {
		add(permission{tree, "", read})
		add(permission{prefix(tree), after(tree), read})
		for path := tree; strings.LastIndexByte(path, '/') > 0; {
			path = path[:strings.LastIndexByte(path, '/')]
			add(permission{path, "", read})
		}
	}
	return all
}

// ask calls one of etcd's functions for users and roles, all of which may be done twice.
func ask[Q any, R interface{ GetHeader() *pb.ResponseHeader }](ctx context.Context, b *Backend,
	f func(context.Context, Q, ...grpc.CallOption) (R, error), request Q) (r R, err error) {
	err = b.retry(ctx, func(ctx context.Context) (*pb.ResponseHeader, error) {
		var err error
		if r, err = f(ctx, request); err != nil {
			return nil, rpctypes.Error(err)
		}
		return r.GetHeader(), nil
	})
	return r, err
}

// unless takes an answer's error away that says that an earlier try has done it.
func unless[R any](already error) func(_ R, err error) error {
	return func(_ R, err error) error {
		if errors.Is(err, already) {
			return nil
		}
		return err
	}
}

// guard makes users and roles.
type guard struct {
	*Backend
	api     pb.AuthClient
	access  *metastore.Access
	step    func()
	changed []string // for people
}

// Protect makes a role and a user for each, and takes away those of users that the access doesn't have.
func (b *Backend) Protect(ctx context.Context, a *metastore.Access, passwords map[string]string, step func()) (
	changed []string, err error) {
	g := &guard{Backend: b, api: pb.NewAuthClient(b.client.ActiveConnection()), access: a, step: step}
	status, err := ask(ctx, b, g.api.AuthStatus, &pb.AuthStatusRequest{})
	if err != nil {
		return nil, err
	}
	if !status.Enabled {
		return nil, fmt.Errorf("%w: it asks nobody for a password: start disco-server with --password-file, or "+
			"`etcdctl auth enable`, and name root in the URL", metastore.ErrNoUsers)
	}
	for i := range a.Users {
		u := &a.Users[i]
		if err := g.user(ctx, u, passwords[u.Name]); err != nil {
			return g.changed, fmt.Errorf("user %s, the %d. of %d: %w", u.Name, i+1, len(a.Users), err)
		}
	}
	return g.changed, g.takeAway(ctx)
}

// user makes one user and its role what they are to be.
func (g *guard) user(ctx context.Context, u *metastore.User, password string) error {
	role := roleName(g.access, u.Name)
	has, err := ask(ctx, g.Backend, g.api.RoleGet, &pb.AuthRoleGetRequest{Role: role})
	if errors.Is(err, rpctypes.ErrRoleNotFound) {
		has = &pb.AuthRoleGetResponse{}
		err = unless[*pb.AuthRoleAddResponse](rpctypes.ErrRoleAlreadyExist)(
			ask(ctx, g.Backend, g.api.RoleAdd, &pb.AuthRoleAddRequest{Name: role}))
	}
	if err == nil {
		err = g.rights(ctx, u, role, has)
	}
	if err != nil {
		return err
	}
	g.step()
	user, err := ask(ctx, g.Backend, g.api.UserGet, &pb.AuthUserGetRequest{Name: u.Name})
	switch {
	case errors.Is(err, rpctypes.ErrUserNotFound) && u.Certificate:
		user, g.changed = &pb.AuthUserGetResponse{}, append(g.changed, "user "+u.Name+" is new, by its certificate")
		err = unless[*pb.AuthUserAddResponse](rpctypes.ErrUserAlreadyExist)(
			ask(ctx, g.Backend, g.api.UserAdd, &pb.AuthUserAddRequest{Name: u.Name,
				Options: &authpb.UserAddOptions{NoPassword: true}}))
	case errors.Is(err, rpctypes.ErrUserNotFound) && password == "":
		return errors.New("the store doesn't have it: a password is needed")
	case errors.Is(err, rpctypes.ErrUserNotFound):
		user, g.changed = &pb.AuthUserGetResponse{}, append(g.changed, "user "+u.Name+" is new")
		err = unless[*pb.AuthUserAddResponse](rpctypes.ErrUserAlreadyExist)(
			ask(ctx, g.Backend, g.api.UserAdd, &pb.AuthUserAddRequest{Name: u.Name, Password: password,
				Options: &authpb.UserAddOptions{}}))
	case err == nil && password != "":
		err = g.password(ctx, u.Name, password)
	}
	if err != nil || slices.Contains(user.Roles, role) {
		return err
	}
	_, err = ask(ctx, g.Backend, g.api.UserGrantRole, &pb.AuthUserGrantRoleRequest{User: u.Name, Role: role})
	return err
}

// password changes a user's password, if it is another one.
func (g *guard) password(ctx context.Context, user, password string) error {
	_, err := ask(ctx, g.Backend, g.api.Authenticate, &pb.AuthenticateRequest{Name: user, Password: password})
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		return err
	}
	g.changed = append(g.changed, "user "+user+" has another password")
	_, err = ask(ctx, g.Backend, g.api.UserChangePassword,
		&pb.AuthUserChangePasswordRequest{Name: user, Password: password})
	return err
}

// rights makes a role's permissions what they are to be.
func (g *guard) rights(ctx context.Context, u *metastore.User, role string, has *pb.AuthRoleGetResponse) error {
	var found []permission
	for _, p := range has.Perm {
		found = append(found, permission{string(p.Key), string(p.RangeEnd), p.PermType})
	}
	want, changes := permissions(g.access, u), 0
	for _, p := range want {
		if slices.Contains(found, p) {
			continue
		}
		changes++
		_, err := ask(ctx, g.Backend, g.api.RoleGrantPermission, &pb.AuthRoleGrantPermissionRequest{Name: role,
			Perm: &authpb.Permission{PermType: p.how, Key: []byte(p.key), RangeEnd: []byte(p.end)}})
		if err != nil {
			return err
		}
	}
	for _, p := range found {
		if slices.ContainsFunc(want, func(w permission) bool { return w.key == p.key && w.end == p.end }) {
			continue
		}
		changes++
		err := unless[*pb.AuthRoleRevokePermissionResponse](rpctypes.ErrPermissionNotGranted)(
			ask(ctx, g.Backend, g.api.RoleRevokePermission,
				&pb.AuthRoleRevokePermissionRequest{Role: role, Key: []byte(p.key), RangeEnd: []byte(p.end)}))
		if err != nil {
			return err
		}
		g.step()
	}
	if changes > 0 {
		g.changed = append(g.changed, fmt.Sprintf("user %s: %d ranges of keys", u.Name, changes))
	}
	return nil
}

// takeAway removes roles of users that the access doesn't have, and those users, where they have no other role.
func (g *guard) takeAway(ctx context.Context) error {
	roles, err := ask(ctx, g.Backend, g.api.RoleList, &pb.AuthRoleListRequest{})
	if err != nil {
		return err
	}
	for _, role := range roles.Roles {
		name, ours := strings.CutPrefix(role, rolePrefix(g.access))
		if !ours || g.access.Find(name) != nil {
			continue
		}
		user, err := ask(ctx, g.Backend, g.api.UserGet, &pb.AuthUserGetRequest{Name: name})
		switch {
		case errors.Is(err, rpctypes.ErrUserNotFound):
		case err != nil:
			return err
		case len(user.Roles) == 0 || len(user.Roles) == 1 && user.Roles[0] == role:
			err := unless[*pb.AuthUserDeleteResponse](rpctypes.ErrUserNotFound)(
				ask(ctx, g.Backend, g.api.UserDelete, &pb.AuthUserDeleteRequest{Name: name}))
			if err != nil {
				return err
			}
		}
		err = unless[*pb.AuthRoleDeleteResponse](rpctypes.ErrRoleNotFound)( // from those who have it, too
			ask(ctx, g.Backend, g.api.RoleDelete, &pb.AuthRoleDeleteRequest{Role: role}))
		if err != nil {
			return err
		}
		g.changed = append(g.changed, "user "+name+" has no role any more")
		g.step()
	}
	return nil
}
