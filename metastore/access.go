// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of what an access may have.
const (
	MaxUsers  = 100 // of a group
	maxRights = 50  // of a user
	maxUser   = 40  // bytes of a name
	maxTrees  = 8
)

// accessName is where the access is kept, below the root of each of its trees. It lies in a directory of its own, of
// which nobody but the administrator may delete anything.
const accessName = identityName + "/access/list"

// Access says who may do what in a group. It is kept in the group, for all to read, and the engine enforces it.
type Access struct {
	// Admin is who changes it, and may do everything; without a name the store asks nobody who they are, and doors go
	// by the access alone.
	Admin User   `json:"admin"`
	Users []User `json:"users"` // by name
	// Trees are the absolute paths of what it is about: the group, and what lies beside it.
	Trees []string `json:"trees"`
}

// AccessPath is the path, below the absolute path of a tree, whose keys nobody but the administrator may write.
func AccessPath(tree string) string {
	return strings.TrimSuffix(tree, "/") + "/" + accessName[:strings.LastIndexByte(accessName, '/')]
}

// User is one who may do something.
type User struct {
	Name   string    `json:"name"`
	Role   string    `json:"role,omitempty"` // what its rights are called
	ID     string    `json:"id,omitempty"`   // by which the engine knows it, where that isn't the name
	Rights []Right   `json:"rights,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Certificate tells that the engine knows it by a certificate with its name, and by no password.
	Certificate bool `json:"certificate,omitempty"`
	// Token is the SHA-256, in hexadecimal digits, of that by which doors know it; "" where it has none.
	Token string `json:"token,omitempty"`
	// TokenBefore is the same of the token before that, which is good until Until, so that it can be changed while it
	// is in use.
	TokenBefore string    `json:"token_before,omitempty"`
	Until       time.Time `json:"token_before_until,omitzero"`
}

// Right is what a user may do with a part of the tree.
type Right struct {
	Path   string   `json:"path"`             // absolute: it, and all that is below
	Key    bool     `json:"key,omitempty"`    // the path alone
	Names  string   `json:"names,omitempty"`  // only what in the path begins so, and all below that
	Write  bool     `json:"write,omitempty"`  // write and delete; everybody who has a right may read all trees
	Except []string `json:"except,omitempty"` // absolute paths below it that it isn't about
}

// Guarded is a [Backend] of an engine that knows users.
type Guarded interface {
	Backend
	// User is who this client is, and by which the engine knows it, where that isn't the name; "" is nobody.
	User() (name, id string)
	// UserID is by which the engine knows a user of a name and a password, where that isn't the name. It refuses
	// passwords that aren't safe with this engine.
	UserID(user, password string) (id string, err error)
	// CertificateID is by which the engine knows a user by its certificate, where that isn't the name.
	CertificateID(user string) string
	// Protect has the engine enforce an access that is kept, as its administrator. passwords are those of users that
	// are new, or have another one. step is called behind each step. changed is what it has changed, for people; where
	// all is so already, nothing.
	Protect(ctx context.Context, a *Access, passwords map[string]string, step func()) (changed []string, err error)
	// Abide tells the client the access that what it makes from now on is under.
	Abide(a *Access)
}

// ErrNoUsers is the error about an engine, or a server, that asks nobody who they are.
var ErrNoUsers = errors.New("the store knows no users")

// CheckUser refuses what can't be the name of a user that is given a role: it is part of keys.
func CheckUser(name string) error {
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
	if bad || name == "" || len(name) > maxUser {
		return fmt.Errorf("the user: found %.80q, want 1 to %d letters of ASCII, digits, - and _", name, maxUser)
	}
	return nil
}

// check refuses an access that can't be one: it is read from the store.
func (a *Access) check() error {
	if len(a.Users) > MaxUsers || len(a.Trees) == 0 || len(a.Trees) > maxTrees {
		return fmt.Errorf("found %d users and %d trees, want at most %d users, and 1 to %d trees", len(a.Users),
			len(a.Trees), MaxUsers, maxTrees)
	}
	var errs []error
	path := func(path string) {
		if clean, err := Path("", path); err != nil || clean != path {
			errs = append(errs, fmt.Errorf("found the path %.80q, want an absolute one", path))
		}
	}
	for _, tree := range a.Trees {
		path(tree)
	}
	for i, u := range a.Users {
		errs = append(errs, CheckUser(u.Name))
		if i > 0 && a.Users[i-1].Name >= u.Name {
			errs = append(errs, fmt.Errorf("found user %.80q behind %.80q, want each once, in order", u.Name,
				a.Users[i-1].Name))
		}
		if len(u.Rights) > maxRights || len(u.ID) > 200 || len(u.Role) > maxUser {
			errs = append(errs, fmt.Errorf("found %d rights of user %s, a role of %d bytes, an id of %d, want at most "+
				"%d, %d and 200", len(u.Rights), u.Name, len(u.Role), len(u.ID), maxRights, maxUser))
		}
		for _, hash := range []string{u.Token, u.TokenBefore} {
			if n := len(hash); n != 0 && (n != 64 || strings.Trim(hash, "0123456789abcdef") != "") {
				errs = append(errs, fmt.Errorf("found a token's hash of %d bytes of user %s, want 64 hexadecimal "+
					"digits", n, u.Name))
			}
		}
		for _, r := range u.Rights {
			path(r.Path)
			for _, p := range r.Except {
				path(p)
			}
		}
	}
	return errors.Join(errs...)
}

// Find is a user of an access, or nil.
func (a *Access) Find(name string) *User {
	for i := range a.Users {
		if a.Users[i].Name == name {
			return &a.Users[i]
		}
	}
	return nil
}

// within tells whether a path is that of a tree, or below it.
func within(path, tree string) bool {
	return path == tree || strings.HasPrefix(path, strings.TrimSuffix(tree, "/")+"/")
}

// About tells whether a path is in a tree that an access is about.
func (a *Access) About(path string) bool {
	return slices.ContainsFunc(a.Trees, func(tree string) bool { return within(path, tree) })
}

// Covers tells whether a right is about a path.
func (r *Right) Covers(path string) bool {
	if r.Key {
		return path == r.Path
	}
	if r.Names != "" {
		return strings.HasPrefix(path, strings.TrimSuffix(r.Path, "/")+"/"+r.Names)
	}
	return within(path, r.Path) && !slices.ContainsFunc(r.Except, func(e string) bool { return within(path, e) })
}

// MayWrite tells whether a user may write and delete a path.
func (u *User) MayWrite(path string) bool {
	return slices.ContainsFunc(u.Rights, func(r Right) bool { return r.Write && r.Covers(path) })
}

// MayAdd tells whether a user may make children of a path that itself isn't the user's to write.
func (u *User) MayAdd(path string) bool {
	return slices.ContainsFunc(u.Rights, func(r Right) bool { return r.Write && r.Names != "" && r.Path == path })
}

// guarded is the backend, if its engine knows users.
func (s *Store) guarded() (Guarded, error) {
	if g, ok := s.backend.(Guarded); ok {
		return g, nil
	}
	return nil, ErrNoUsers
}

// User is who this client is to the engine; "" is nobody.
func (s *Store) User() string {
	if g, err := s.guarded(); err == nil {
		name, _ := g.User()
		return name
	}
	return ""
}

// Root is the absolute path of the group.
func (s *Store) Root() string {
	path, _ := Path("", s.root)
	return path
}

// Access reads who may do what in the group; nil where nobody has said.
func (s *Store) Access(ctx context.Context) (*Access, error) {
	path, err := Path(s.root, accessName)
	if err != nil {
		return nil, err
	}
	a, err := s.readAccess(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("metastore: who may do what in the group: %w", err)
	}
	return a, nil
}

func (s *Store) readAccess(ctx context.Context, path string) (*Access, error) {
	n, err := s.backend.Get(ctx, path)
	if errors.Is(err, ErrNoNode) || err == nil && n.Value == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.decodeAccess(path, n)
}

func (s *Store) decodeAccess(path string, n Node) (*Access, error) {
	a := &Access{}
	err := s.value(accessName, n).Decode(a)
	if err == nil {
		err = a.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", path, err)
	}
	return a, nil
}

// SetAccess says who may do what from now on, and has the engine enforce it. This client's user is, or becomes, the
// administrator. passwords are those of users that are new, or are to have another one. Doing it again does what an
// earlier call hasn't, and changes nothing else. changed says what was changed, a line each. ErrNoUsers, ErrDenied.
//
// step is called behind each step, for those who bound how long one may take.
func (s *Store) SetAccess(ctx context.Context, a *Access, passwords map[string]string, step func()) (changed []string,
	err error) {
	changed, err = s.setAccess(ctx, a, passwords, step)
	if err != nil {
		err = fmt.Errorf("metastore: %w", err)
	}
	return changed, err
}

func (s *Store) setAccess(ctx context.Context, a *Access, passwords map[string]string, step func()) (changed []string,
	err error) {
	g, err := s.guarded()
	if err != nil {
		return nil, err
	}
	name, id := g.User()
	if name == "" {
		return nil, fmt.Errorf("%w by name: name the administrator in the URL, such as root@HOST", ErrNoUsers)
	}
	a.Admin = User{Name: name, ID: id}
	for i := range a.Users {
		u := &a.Users[i]
		switch {
		case u.Certificate:
			u.ID = g.CertificateID(u.Name)
			continue
		case passwords[u.Name] == "" && id != "" && u.ID == "":
			return nil, fmt.Errorf("user %s is new: a password is needed", u.Name)
		case passwords[u.Name] == "":
			continue
		}
		if u.ID, err = g.UserID(u.Name, passwords[u.Name]); err != nil {
			return nil, err
		}
	}
	raw, err := a.raw()
	if err != nil {
		return nil, err
	}
	g.Abide(a)
	if err := s.keepAll(ctx, a, raw); err != nil {
		return nil, err
	}
	step()
	return g.Protect(ctx, a, passwords, step)
}

// KeepAccess says who may do what from now on, where the engine asks nobody who they are: it enforces nothing, and
// whoever reaches the store may do everything. It is for those who let others in by it, such as a door.
func (s *Store) KeepAccess(ctx context.Context, a *Access) error {
	a.Admin = User{}
	raw, err := a.raw()
	if err == nil {
		err = s.keepAll(ctx, a, raw)
	}
	if err != nil {
		return fmt.Errorf("metastore: %w", err)
	}
	return nil
}

// raw is an access as it is kept.
func (a *Access) raw() ([]byte, error) {
	slices.SortFunc(a.Users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	if err := a.check(); err != nil {
		return nil, err
	}
	return encode(JSON, a, "")
}

// keepAll writes an access below all of its trees.
func (s *Store) keepAll(ctx context.Context, a *Access, raw []byte) error {
	for _, tree := range a.Trees {
		if err := s.keepAccess(ctx, tree, raw); err != nil {
			return err
		}
	}
	return nil
}

// ReadAccess reads an access as a backend has it below the absolute path of a group; nil where nobody has said who may
// do what. version is zero then.
func ReadAccess(ctx context.Context, b Backend, root string) (a *Access, version Version, err error) {
	path, err := Path(strings.TrimSuffix(root, "/"), accessName)
	if err != nil {
		return nil, Version{}, err
	}
	s := &Store{backend: b}
	n, err := b.Get(ctx, path)
	if errors.Is(err, ErrNoNode) || err == nil && n.Value == nil {
		return nil, Version{}, nil
	}
	if err == nil {
		a, err = s.decodeAccess(path, n)
	}
	return a, n.Version, err
}

// Shown is an access as those see it who don't change it: without that by which users are known.
func (a *Access) Shown() ([]byte, error) {
	shown := *a
	shown.Users = slices.Clone(a.Users)
	shown.Admin.ID = ""
	for i := range shown.Users {
		u := &shown.Users[i]
		u.ID, u.Token, u.TokenBefore, u.Until = "", "", "", time.Time{}
	}
	return shown.raw()
}

// keepAccess writes an access below one of its trees, where it isn't there already.
func (s *Store) keepAccess(ctx context.Context, tree string, raw []byte) error {
	path, err := Path(strings.TrimSuffix(tree, "/"), accessName)
	if err != nil {
		return err
	}
	for _, dir := range []string{tree, path[:strings.LastIndexByte(path, '/')]} {
		if err := s.ensure(ctx, dir); err != nil {
			return err
		}
	}
	n, err := s.backend.Get(ctx, path)
	if err == nil && string(n.Value) == string(raw) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrNoNode) {
		return err
	}
	for try := 0; ; try++ { // written again after an unknown outcome it is the same
		err := s.backend.Commit(ctx, nil, []Op{{Path: path, Do: Set, Value: raw}})
		if err == nil || !errors.Is(err, ErrUnknown) || pause(ctx, try) != nil {
			return err
		}
	}
}

// abide tells the backend the access that the group is under: its own, or that of what it lies in.
func (s *Store) abide(ctx context.Context) (path string, err error) {
	g, err := s.guarded()
	if err != nil {
		return "", nil
	}
	if name, _ := g.User(); name == "" {
		return "", nil
	}
	for root := s.root; ; root = root[:strings.LastIndexByte(root, '/')] {
		path, err := Path(root, accessName)
		if err != nil {
			return "", err
		}
		a, err := s.readAccess(ctx, path)
		switch {
		case errors.Is(err, ErrDenied): // nothing that this user may read: it may make nothing either
			return "", nil
		case err != nil:
			return "", err
		case a != nil:
			g.Abide(a)
			return path, nil
		case root == "":
			return "", nil
		}
	}
}

// followAccess tells the backend of every change of the access at a path.
func (s *Store) followAccess(g Guarded, path string) {
	feed := s.backend.Watch(path, Data)
	defer feed.Close()
	for {
		state, err := feed.Next(s.ctx)
		if err != nil {
			return
		}
		if state.Node.Value == nil {
			continue
		}
		a, err := s.decodeAccess(path, state.Node)
		if err != nil {
			s.options.Report(fmt.Errorf("metastore: %w", err))
			continue
		}
		g.Abide(a)
	}
}
