// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// UserRole is what a user of a group may do.
type UserRole string

// The roles. Each may do what those before it may.
const (
	See     UserRole = "see"     // look at everything
	Submit  UserRole = "submit"  // submit experiments, and change one's own
	Operate UserRole = "operate" // all but others' entries in the audit and roles: agents, and who keeps the group
)

// Roles are all roles.
var Roles = []UserRole{See, Submit, Operate}

// ParseRole reads a role.
func ParseRole(text string) (UserRole, error) {
	if r := UserRole(text); slices.Contains(Roles, r) {
		return r, nil
	}
	return "", fmt.Errorf("found the role %.40q, want see, submit or operate", text)
}

// ownerEnd is behind the user's name in the ids of the experiments of a store that knows its users. No user's name has
// it.
const ownerEnd = "."

// Owner is the user to whose name the store has bound an experiment's id; "" where it was submitted to a store that
// didn't know who did.
func Owner(id string) string {
	if owner, _, ok := strings.Cut(id, ownerEnd); ok && metastore.CheckUser(owner) == nil {
		return owner
	}
	return ""
}

// storeUser is who this client is to the store, where keys can be bound to the name.
func storeUser(s *metastore.Store) string {
	if user := s.User(); metastore.CheckUser(user) == nil {
		return user
	}
	return ""
}

// ownKey is a key that is bound to a user's name; without one it is everybody's.
func ownKey(key, user, name string) string {
	if user == "" {
		return key + "/" + name
	}
	return key + "/" + user + "/" + name
}

// rights are what a role may do in a group, and in the trees beside it that hold the parts of its experiments.
func rights(root string, beside []string, role UserRole, user string) []metastore.Right {
	root = strings.TrimSuffix(root, "/")
	all := []metastore.Right{{Path: cmp.Or(root, "/")}}
	own := metastore.Right{Path: root + "/" + keyAudit + "/" + user, Write: true}
	switch role {
	case Submit:
		all = append(all, own,
			metastore.Right{Path: root + "/" + keySubmitted + "/" + user, Write: true},
			metastore.Right{Path: root + "/" + keyExperiments, Names: user + ownerEnd, Write: true},
			metastore.Right{Path: root + "/" + keyUsers + "/" + user, Write: true},
			metastore.Right{Path: root + "/" + keyBlobs, Write: true},
			metastore.Right{Path: root + "/" + keyChanged, Key: true, Write: true})
	case Operate:
		all[0].Write, all[0].Except = true, []string{metastore.AccessPath(root), root + "/" + keyAudit}
		all = append(all, own)
		for _, tree := range beside {
			all = append(all, metastore.Right{Path: tree, Write: true, Except: []string{metastore.AccessPath(tree)}})
		}
	}
	return all
}

// Grants are roles that are to be given.
type Grants struct {
	Roles  map[string]UserRole // by user; "" takes it away
	Beside []string            // the absolute paths of the trees that hold parts
	// Passwords are those of users that are new to the store, or get another one; Tokens are that by which doors are to
	// know users.
	Passwords, Tokens map[string]string
	// Certificates has the store know users that have no password by their certificates.
	Certificates bool
	// Doors says that the store asks nobody who they are: the roles are for doors alone.
	Doors bool
	// Step is called behind each step, so that each can be given a time; it may be nil.
	Step func()
}

// SetRoles gives users their roles, in addition to those who have one. Doing it again does what an earlier call hasn't
// done, and changes nothing else: changed says what was changed.
func (c *Client) SetRoles(ctx context.Context, g Grants) (changed []string, err error) {
	a, err := c.accessFor(ctx, &g)
	if err != nil {
		return nil, err
	}
	if g.Step == nil {
		g.Step = func() {}
	}
	a.Trees = append([]string{c.store.Root()}, g.Beside...)
	var deeds []string
	for _, name := range slices.Sorted(maps.Keys(g.Roles)) {
		done, err := c.setRole(a, name, &g)
		if err != nil {
			return nil, err
		}
		deeds = append(deeds, done...)
	}
	if err := c.makeFormat(ctx); err != nil {
		return nil, err
	}
	for _, deed := range deeds { // before it is done: what has no entry wasn't done
		if err := c.note(ctx, deed); err != nil {
			return nil, err
		}
		g.Step()
	}
	if g.Doors {
		err = c.store.KeepAccess(ctx, a)
	} else {
		changed, err = c.store.SetAccess(ctx, a, g.Passwords, g.Step)
	}
	if err == nil {
		err = c.makeOwn(ctx, a, g.Step)
	}
	return append(deeds, changed...), err
}

// ErrOwnRole is about a role for whoever gives the roles.
var ErrOwnRole = errors.New("gives the roles, and may do everything: want other users")

// CheckRoles refuses what SetRoles would for who gives roles here, and to whom: before anything is made for them.
func (c *Client) CheckRoles(ctx context.Context, g Grants) error {
	if _, err := c.accessFor(ctx, &g); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.Roles)) {
		if err := c.checkNamed(name); err != nil {
			return err
		}
	}
	return nil
}

// checkNamed refuses who can't be given a role.
func (c *Client) checkNamed(name string) error {
	if err := metastore.CheckUser(name); err != nil {
		return err
	}
	if name == c.user {
		return fmt.Errorf("user %s %w", name, ErrOwnRole)
	}
	return nil
}

// tokenBefore is for how long a token is good that another one has taken the place of.
const tokenBefore = 24 * time.Hour

// accessFor reads the access that is to be changed, and refuses who may not, or can't, change it.
func (c *Client) accessFor(ctx context.Context, g *Grants) (*metastore.Access, error) {
	if c.user == "" && !g.Doors {
		return nil, fmt.Errorf("%w by name: name the administrator in the URL, such as root@HOST; for roles that "+
			"count at doors alone say --for-doors", metastore.ErrNoUsers)
	}
	a, err := c.store.Access(ctx)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return &metastore.Access{}, nil
	case g.Doors && a.Admin.Name != "":
		return nil, fmt.Errorf("the store enforces the roles here, and %s gives them: leave --for-doors out",
			a.Admin.Name)
	case !g.Doors && a.Admin.Name != "" && a.Admin.Name != c.user:
		return nil, fmt.Errorf("roles are given by %s here, and this is user %s", a.Admin.Name, c.user)
	}
	return a, nil
}

// setRole changes one user's role in an access, and says what was changed.
func (c *Client) setRole(a *metastore.Access, name string, g *Grants) (deeds []string, err error) {
	if err := c.checkNamed(name); err != nil {
		return nil, err
	}
	u, role := a.Find(name), g.Roles[name]
	if role == "" {
		if u == nil {
			return nil, nil
		}
		a.Users = slices.DeleteFunc(a.Users, func(u metastore.User) bool { return u.Name == name })
		return []string{"no role any more for " + name}, nil
	}
	if u == nil {
		a.Users = append(a.Users, metastore.User{Name: name, Since: c.o.Now()})
		u = &a.Users[len(a.Users)-1]
		u.Certificate = g.Certificates && g.Passwords[name] == ""
	}
	if g.Passwords[name] != "" {
		u.Certificate = false
	}
	if u.Role != string(role) {
		deeds = append(deeds, fmt.Sprintf("role %s for %s", role, name))
	}
	if token := g.Tokens[name]; token != "" && u.Token != sha([]byte(token)) {
		if u.Token != "" {
			u.TokenBefore, u.Until = u.Token, c.o.Now().Add(tokenBefore)
		}
		u.Token, deeds = sha([]byte(token)), append(deeds, "a token for "+name)
	}
	u.Role, u.Rights = string(role), rights(a.Trees[0], a.Trees[1:], role, name)
	return deeds, nil
}

// makeOwn makes the directories that users' keys are in, which they can't make themselves.
func (c *Client) makeOwn(ctx context.Context, a *metastore.Access, step func()) error {
	keys := Base()
	for _, u := range a.Users {
		if u.Role != string(See) {
			keys = append(keys, keyAudit+"/"+u.Name, keySubmitted+"/"+u.Name, keyUsers+"/"+u.Name)
		}
	}
	for _, key := range keys {
		if err := c.store.Ensure(ctx, key); err != nil {
			return err
		}
		step()
	}
	op, err := c.wake("")
	if err != nil {
		return err
	}
	return c.commitAgain(ctx, op)
}

// note appends to the audit what isn't about an experiment.
func (c *Client) note(ctx context.Context, what string) error {
	op, err := c.noted(c.o.Now(), what, "", "")
	if err != nil {
		return err
	}
	return c.commitAgain(ctx, op)
}

// commitAgain does what may be done twice until its outcome is known.
func (c *Client) commitAgain(ctx context.Context, op metastore.Op) error {
	for {
		err := c.store.Commit(ctx, nil, []metastore.Op{op})
		if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && op.Do == metastore.Create {
			return nil // an earlier try has done it
		}
		if !errors.Is(err, metastore.ErrUnknown) || ctx.Err() != nil {
			return err
		}
	}
}

// mayChange is ErrDenied where the role of this client's user doesn't let it change an experiment. The store refuses
// what is written, but not what comes to no write: without this, who may not change an experiment would be told how it
// is, or that it is done.
func (c *Client) mayChange(ctx context.Context, id, do string) error {
	if c.user == "" {
		return nil
	}
	a, err := c.store.Access(ctx)
	if err != nil || a == nil || a.Admin.Name == c.user {
		return err
	}
	u := a.Find(c.user)
	if u != nil && (UserRole(u.Role) == Operate || UserRole(u.Role) == Submit && Owner(id) == c.user) {
		return nil
	}
	err = fmt.Errorf("%s: %w", id, metastore.ErrDenied)
	if u == nil || u.Role == "" { // who knows the group's name explains that
		return err
	}
	return Explain(ctx, c.store, "", do, err)
}

// RoleError is about what a user may not do.
type RoleError struct {
	User, Group string
	Role        UserRole // "": none
	Needs       UserRole // that would do
	Do          string   // what was tried
	Admin       string   // who gives roles
	Err         error    // the store's
}

// Error says what the user may, and who could change that.
func (e *RoleError) Error() string {
	is := "may " + string(e.Role)
	switch {
	case e.Role == "":
		is = fmt.Sprintf("has no role in the group %s", e.Group)
	case e.Role == Submit:
		is = "may submit, and change experiments of " + e.User + " alone"
	}
	admin := e.Admin
	if metastore.CheckUser(admin) == nil {
		admin = "user " + admin
	}
	return fmt.Sprintf("user %s %s: %s needs the role %s, which %s gives: `store roles --grant %s=%s`", e.User, is,
		e.Do, e.Needs, admin, e.User, e.Needs)
}

// Unwrap is the store's error.
func (e *RoleError) Unwrap() error { return e.Err }

// Explain makes a RoleError of a store's refusal, where somebody has given roles in the group: do is what was tried.
// Other errors stay.
func Explain(ctx context.Context, s *metastore.Store, group, do string, err error) error {
	user := storeUser(s)
	if !errors.Is(err, metastore.ErrDenied) || user == "" {
		return err
	}
	a, look := s.Access(ctx)
	if errors.Is(look, metastore.ErrDenied) {
		return &RoleError{User: user, Group: group, Needs: See, Do: do, Admin: "root", Err: err}
	}
	if look != nil || a == nil || a.Admin.Name == user {
		return err
	}
	e := &RoleError{User: user, Group: group, Needs: Submit, Do: do, Err: err,
		Admin: cmp.Or(a.Admin.Name, "whoever looks after the door's home")}
	if u := a.Find(user); u != nil {
		e.Role = UserRole(u.Role)
	}
	submitters := []string{"submit", doPause, doContinue, doCancel, doRetry, doPriority}
	if e.Role == Submit || !slices.Contains(submitters, do) {
		e.Needs = Operate
	}
	return e
}
