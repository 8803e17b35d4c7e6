// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
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
	}
}

// rolesVerb shows who may do what in a group, and changes it.
func rolesVerb(ctx context.Context, c *app.Call, s *metastore.Store, _ []string) error {
	wanted, err := wantedRoles(c)
	if err != nil {
		return err
	}
	if len(wanted) == 0 && c.IsSet("passwords") {
		return app.Usage("roles: --passwords is for --grant USER=ROLE")
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

// changeRoles gives and takes roles, and says what was changed.
func changeRoles(ctx context.Context, c *app.Call, s *metastore.Store, wanted map[string]fleet.UserRole) error {
	look, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	fl, err := fleet.New(look, s, fleet.Options{By: groupcall.Who(), From: c.Program + " store roles"})
	if err != nil {
		return err
	}
	was, err := s.Access(look)
	if err != nil {
		return err
	}
	passwords, made, err := rolePasswords(c.String("passwords"), wanted, was)
	if err != nil {
		return err
	}
	group, err := groupcall.Group(c)
	if err != nil {
		return err
	}
	// A large group takes its time: each node of ZooKeeper has a list of its own.
	beside, err := groupcall.OpenBeside(ctx, c, group+experiments.KeptSuffix)
	if err != nil {
		return err
	}
	defer beside.Close()
	changed, err := fl.SetRoles(ctx, wanted, []string{s.Root() + experiments.KeptSuffix}, passwords)
	if len(changed) == 0 && err == nil {
		changed = []string{"everything was so already"}
	}
	for _, line := range append(made, changed...) {
		fmt.Fprintf(c.Stderr, "%s: %s\n", c.Program, line)
	}
	return err
}

// rolePasswords reads the passwords of users that are given a role, and makes those of new users that have none.
func rolePasswords(dir string, wanted map[string]fleet.UserRole, was *metastore.Access) (passwords map[string]string,
	made []string, err error) {
	passwords = map[string]string{}
	for user, role := range wanted {
		if role == "" {
			continue
		}
		isNew := was == nil || was.Find(user) == nil
		if dir == "" && isNew {
			return nil, nil, app.Usage("roles: user %s is new: --passwords DIR is missing, where its password is "+
				"kept, or is to be", user)
		}
		if dir == "" {
			continue
		}
		file := filepath.Join(dir, user+".password")
		if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
			if !isNew {
				continue
			}
			if err := newPassword(dir, file); err != nil {
				return nil, nil, err
			}
			made = append(made, "a password for "+user+" was made: "+file)
		}
		if passwords[user], err = readPassword(file); err != nil {
			return nil, nil, err
		}
	}
	slices.Sort(made)
	return passwords, made, nil
}

// newPassword makes a file with a password that nobody guesses.
func newPassword(dir, file string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return app.Usage("roles: --passwords: %v", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return app.Usage("roles: --passwords: %v", err)
	}
	_, err = f.WriteString(rand.Text() + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// readPassword reads a file that nobody else may read.
func readPassword(file string) (string, error) {
	text, err := infile.Read(file, infile.Kind{Name: "a file with a password", BytesMax: 72})
	if err != nil {
		return "", app.Usage("roles: --passwords: %v", err)
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", app.Usage("roles: --passwords: %s can be read by others: chmod 600 it", file)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return "", app.Usage("roles: --passwords: %s is empty", file)
	}
	return password, nil
}

// shownRoles is who may do what, for JSON output.
type shownRoles struct {
	Admin string      `json:"admin,omitempty"` // who gives the roles; none: nobody has
	Users []shownRole `json:"users"`
}

type shownRole struct {
	Name  string    `json:"user"`
	Role  string    `json:"role"`
	Since time.Time `json:"since,omitzero"`
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
			shown.Users = append(shown.Users, shownRole{u.Name, u.Role, u.Since})
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
	rows := [][]string{{"user", "role", "for"}, {shown.Admin, "gives the roles, may do everything", ""}}
	for _, u := range shown.Users {
		rows = append(rows, []string{u.Name, u.Role, groupcall.Since(u.Since)})
	}
	out := &strings.Builder{}
	groupcall.Columns(out, rows)
	_, err = fmt.Fprint(c.Stdout, out)
	return err
}
