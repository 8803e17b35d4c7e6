// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/doorway"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

// roleFlags are those of store roles.
func roleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "grant",
			Usage: "roles: `USER=ROLE`, which is see, submit or operate; may be repeated"},
		&cli.StringSliceFlag{Name: "revoke", Usage: "roles: `USER` who is to have no role; may be repeated"},
		&cli.StringFlag{Name: "passwords", Usage: "roles: `DIR` with USER.password for each; made where it is missing"},
		&cli.StringFlag{Name: "tokens", Usage: "roles: `DIR` with USER.token for each, by which doors know users; " +
			"made where it is missing"},
		&cli.BoolFlag{Name: "certificates",
			Usage: "roles: new users have no password at the store, which knows them by their certificates"},
		&cli.BoolFlag{Name: "for-doors", Usage: "roles: of a door's home whose store asks nobody who they are"},
	}
}

// rolesVerb shows who may do what in a group, and changes it.
func rolesVerb(ctx context.Context, c *app.Call, s *metastore.Store, _ []string) error {
	wanted, err := wantedRoles(c)
	if err != nil {
		return err
	}
	for _, flag := range []string{"passwords", "tokens", "certificates"} {
		if len(wanted) == 0 && c.IsSet(flag) {
			return app.Usage("roles: --%s is for --grant USER=ROLE", flag)
		}
	}
	for _, flag := range []string{"passwords", "certificates"} {
		if c.Bool("for-doors") && c.IsSet(flag) {
			return app.Usage("roles: found --for-doors and --%s, want one of them: with the first the store asks "+
				"nobody who they are", flag)
		}
	}
	if len(wanted) > 0 {
		err = changeRoles(ctx, c, s, wanted)
	}
	if err != nil {
		return err
	}
	ctx, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	return showRoles(ctx, c, s)
}

// wantedRoles are those of the flags; "" is none any more.
func wantedRoles(c *app.Call) (map[string]fleet.UserRole, error) {
	wanted := map[string]fleet.UserRole{}
	add := func(flag, user string, role fleet.UserRole) error {
		if err := metastore.CheckUser(user); err != nil {
			return app.Usage("roles: --%s: %v", flag, err)
		}
		if _, twice := wanted[user]; twice {
			return app.Usage("roles: --%s: found user %s twice", flag, user)
		}
		wanted[user] = role
		return nil
	}
	for _, text := range c.StringSlice("grant") {
		user, name, ok := strings.Cut(text, "=")
		role, err := fleet.ParseRole(name)
		if !ok || err != nil {
			return nil, app.Usage("roles: --grant: found %.80q, want USER=ROLE, with the role see, submit or operate",
				text)
		}
		if err := add("grant", user, role); err != nil {
			return nil, err
		}
	}
	for _, user := range c.StringSlice("revoke") {
		if err := add("revoke", user, ""); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// changeRoles gives and takes roles, and says what was changed. Each step has the time of --store-timeout: a group of
// many users, or nodes, takes its time.
func changeRoles(ctx context.Context, c *app.Call, s *metastore.Store, wanted map[string]fleet.UserRole) error {
	ctx, step, stop, err := groupcall.Stepped(ctx, c)
	if err != nil {
		return err
	}
	defer stop()
	fl, err := fleet.New(ctx, s, fleet.Options{By: groupcall.Who(), From: c.Program + " store roles"})
	if err != nil {
		return err
	}
	was, err := s.Access(ctx)
	if err != nil {
		return err
	}
	g := fleet.Grants{Roles: wanted, Beside: []string{s.Root() + experiments.KeptSuffix},
		Certificates: c.Bool("certificates") || !c.IsSet("passwords") && c.IsSet("tokens"), Doors: c.Bool("for-doors"),
		Step: step}
	if err := fl.CheckRoles(ctx, g); errors.Is(err, fleet.ErrOwnRole) {
		return app.Usage("roles: %v", err)
	} else if err != nil {
		return err
	}
	made, err := readSecrets(c, &g, was)
	if err != nil {
		return err
	}
	group, err := groupcall.Group(c)
	if err != nil {
		return err
	}
	step()
	beside, err := groupcall.OpenBeside(ctx, c, group+experiments.KeptSuffix)
	if err != nil {
		return err
	}
	defer beside.Close()
	step()
	changed, err := fl.SetRoles(ctx, g)
	if len(changed) == 0 && err == nil {
		changed = []string{"everything was so already"}
	}
	for _, line := range append(made, changed...) {
		fmt.Fprintf(c.Stderr, "%s: %s\n", c.Program, line)
	}
	cut := errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) || ctx.Err() != nil
	if err != nil && cut {
		err = fmt.Errorf("not everything is done yet, and the same command again does the rest: %w", err)
	}
	return err
}

// secret is a kind of text by which a user is known, a file each in a folder that a flag names.
type secret struct {
	flag, name string
	most       int
	check      func(string) error
}

var (
	passwords = secret{"passwords", "password", 72, func(string) error { return nil }}
	tokens    = secret{"tokens", "token", 200, doorway.CheckToken}
)

// readSecrets reads the passwords and tokens of users that are given a role, and makes those that are missing: of new
// users the passwords, of all the tokens.
func readSecrets(c *app.Call, g *fleet.Grants, was *metastore.Access) (made []string, err error) {
	g.Passwords, g.Tokens = map[string]string{}, map[string]string{}
	for _, user := range slices.Sorted(maps.Keys(g.Roles)) {
		if g.Roles[user] == "" {
			continue
		}
		var has *metastore.User
		if was != nil {
			has = was.Find(user)
		}
		if has == nil && !c.IsSet("passwords") && !c.IsSet("tokens") && !c.Bool("certificates") {
			return nil, app.Usage("roles: user %s is new: --passwords DIR is missing, where its password is kept, or "+
				"is to be; or --certificates, or --tokens DIR for a door", user)
		}
		if has != nil && !has.Certificate && was.Admin.Name != "" && c.Bool("certificates") {
			return nil, app.Usage("roles: --certificates: user %s is known by a password: --revoke %s comes first",
				user, user)
		}
		for _, kind := range []struct {
			secret
			into  map[string]string
			makes bool
		}{{passwords, g.Passwords, has == nil && !c.Bool("certificates")},
			{tokens, g.Tokens, true}} {
			text, isNew, err := kind.read(c.String(kind.flag), user, kind.makes)
			if err != nil {
				return nil, err
			}
			if text != "" && has != nil && has.Certificate && kind.flag == passwords.flag {
				return nil, app.Usage("roles: --passwords: user %s is known by its certificate: --revoke %s comes "+
					"first", user, user)
			}
			if text != "" {
				kind.into[user] = text
			}
			if isNew {
				made = append(made, fmt.Sprintf("a %s for %s was made: %s", kind.name, user,
					filepath.Join(c.String(kind.flag), user+"."+kind.name)))
			}
		}
	}
	return made, nil
}

// read is a user's secret, which is made if it is missing and makes says so; "" where there is none.
func (s *secret) read(dir, user string, makes bool) (text string, made bool, err error) {
	if dir == "" {
		return "", false, nil
	}
	file := filepath.Join(dir, user+"."+s.name)
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
		if !makes {
			return "", false, nil
		}
		if err := newSecret(dir, file); err != nil {
			return "", false, app.Usage("roles: --%s: %v", s.flag, err)
		}
		made = true
	}
	if text, err = readSecret(file, s.name, s.most); err == nil {
		err = s.check(text)
	}
	if err != nil {
		return "", false, app.Usage("roles: --%s: %s: %v", s.flag, file, err)
	}
	return text, made, nil
}

// newSecret makes a file with what nobody guesses.
func newSecret(dir, file string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(rand.Text() + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// readSecret reads a file that nobody else may read.
func readSecret(file, name string, most int) (string, error) {
	text, err := infile.Read(file, infile.Kind{Name: "a file with a " + name, BytesMax: most})
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("it can be read by others: chmod 600 %s", file)
	}
	found := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if found == "" {
		return "", errors.New("it is empty")
	}
	return found, nil
}

// shownRoles is who may do what, for JSON output.
type shownRoles struct {
	Admin string      `json:"admin,omitempty"` // who gives the roles; none: nobody has
	Users []shownRole `json:"users"`
}

type shownRole struct {
	Name  string    `json:"user"`
	Role  string    `json:"role"`
	By    string    `json:"known_by,omitempty"` // password or certificate at the store, and token at a door
	Since time.Time `json:"since,omitzero"`
}

// knownBy is by what a user is known.
func knownBy(a *metastore.Access, u *metastore.User) string {
	var all []string
	switch {
	case u.Certificate:
		all = append(all, "certificate")
	case a.Admin.Name != "":
		all = append(all, "password")
	}
	if u.Token != "" {
		all = append(all, "token")
	}
	return strings.Join(all, ", ")
}

// showRoles shows who may do what.
func showRoles(ctx context.Context, c *app.Call, s *metastore.Store) error {
	a, err := s.Access(ctx)
	if err != nil {
		return err
	}
	shown := shownRoles{Users: []shownRole{}}
	if a != nil {
		shown.Admin = a.Admin.Name
		for _, u := range a.Users {
			shown.Users = append(shown.Users, shownRole{u.Name, u.Role, knownBy(a, &u), u.Since})
		}
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, shown, false)
	}
	if a == nil {
		_, err := fmt.Fprintln(c.Stdout, "Nobody has given roles in this group: whoever is let into the store may do "+
			"everything.")
		return err
	}
	rows := [][]string{{"user", "role", "known by", "for"}}
	out := &strings.Builder{}
	if shown.Admin == "" {
		fmt.Fprintln(out, "The store asks nobody who they are: these roles count at doors, and whoever reaches the "+
			"store may do everything.")
	} else {
		rows = append(rows, []string{shown.Admin, "gives the roles, may do everything", "", ""})
	}
	for _, u := range shown.Users {
		rows = append(rows, []string{u.Name, u.Role, cmp.Or(u.By, "certificate"), groupcall.Since(u.Since)})
	}
	groupcall.Columns(out, rows)
	_, err = fmt.Fprint(c.Stdout, out)
	return err
}
