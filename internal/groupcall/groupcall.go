// SPDX-License-Identifier: Apache-2.0

// Package groupcall is what the commands for groups of machines share: their flags for the store, how they open and
// leave it, the program whose models run, and how they write what they found.
//
// Guarantee: no password is taken from an argument. A command that waits for the store ends after --store-timeout,
// saying for how long it has tried, or by a signal.
//
//	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error { … })
package groupcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/doorway"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/urfave/cli/v2"
)

// Flags are those of every command that uses a store.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "store",
			Usage: "`URL` of the store: " + dial.Form + "; DISCO_STORE where it isn't given"},
		&cli.StringFlag{Name: "group", Value: "disco",
			Usage: "`NAME` of the group; groups of one store don't see each other"},
		&cli.StringFlag{Name: "store-ca", Usage: "`FILE` of the certificate that signs the servers' ones"},
		&cli.StringFlag{Name: "store-cert", Usage: "`FILE` of this client's certificate"},
		&cli.StringFlag{Name: "store-key", Usage: "`FILE` of its key"},
		&cli.StringFlag{Name: "store-password-file",
			Usage: "`FILE` with the password of the URL's user; or DISCO_STORE_PASSWORD"},
		&cli.DurationFlag{Name: "store-timeout", Value: 10 * time.Second, Usage: "`TIME` to wait for the store"},
	}
}

// connectDoor opens the home of the door that the flags name.
func connectDoor(ctx context.Context, c *app.Call, o metastore.Options) (*metastore.Store, error) {
	for _, flag := range []string{"store", "group", "store-ca", "store-cert", "store-key", "store-password-file"} {
		if c.IsSet(flag) {
			return nil, app.Usage("found --door and --%s, want one of them: a door has its stores itself", flag)
		}
	}
	backend, err := doorway.Dial(c.String("door"), doorSecurity(c))
	if err != nil {
		return nil, app.Usage("--door: %v", err)
	}
	ctx, cancel, err := Bounded(ctx, c)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	defer cancel()
	if err := backend.Who(ctx); err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return metastore.New(ctx, backend, o)
}

// OpenResults opens the tree of parts of the door that the flags name: a place's folder is at the key ID/PIECE of an
// experiment.
func OpenResults(ctx context.Context, c *app.Call, o metastore.Options) (*metastore.Store, error) {
	o.Chroot, o.Group, o.Existing = doorway.Results, "", true
	return connectDoor(ctx, c, o)
}

// Access is what a command wants of a group.
type Access struct {
	Makes   bool          // the group, where it isn't there
	Session time.Duration // 0: as long as sessions last usually
}

// Looks is the access of those who look at what is there, or change it: a mistyped name makes nothing.
var Looks Access

// reporter shows people what goes wrong beside a command: a line each.
func reporter(c *app.Call) func(error) {
	return func(problem error) { fmt.Fprintf(c.Stderr, "%s: %v\n", c.Program, problem) }
}

// Connect opens the store that the flags name. Everything that uses it should end with ctx.
func Connect(ctx context.Context, c *app.Call, a Access) (*metastore.Store, error) {
	if c.String("door") != "" {
		return connectDoor(ctx, c, metastore.Options{Group: doorway.Group, Existing: true, Report: reporter(c)})
	}
	if err := withoutDoor(c); err != nil {
		return nil, err
	}
	url := URL(c)
	if url == "" {
		return nil,
			app.Usage("which store is meant? Name it with --store URL, or in DISCO_STORE: %s; `%s server` starts one",
				dial.Form, c.Program)
	}
	group, err := Group(c)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, url, group, a, append(cluster.Base(), fleet.Base()...))
}

// open opens a group of a store, and makes directories in it if a says so.
func open(ctx context.Context, c *app.Call, url, group string, a Access, base []string) (*metastore.Store, error) {
	ctx, cancel, err := Bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	store, err := dial.Open(ctx, dial.Options{URL: url, CA: c.String("store-ca"), Cert: c.String("store-cert"),
		Key: c.String("store-key"), PasswordFile: c.String("store-password-file"),
		Password: os.Getenv("DISCO_STORE_PASSWORD"), TTL: a.Session,
		Store: metastore.Options{Group: group, Base: base, Existing: !a.Makes, Report: reporter(c)}})
	if errors.Is(err, metastore.ErrNoGroup) {
		return nil, app.Usage("--group: %v: `agent`, `store put` or `store queue --push` makes one", err)
	}
	var wrong *dial.OptionsError
	if errors.As(err, &wrong) {
		return nil, app.Usage("%v", err)
	}
	return store, notLetIn(url, group, err)
}

// OpenBeside opens a group beside that of a command, which keeps what its experiments leave, and makes it where it
// isn't there. The caller closes it.
func OpenBeside(ctx context.Context, c *app.Call, group string) (*metastore.Store, error) {
	return open(ctx, c, URL(c), group, Access{Makes: true}, nil)
}

// notLetIn says what may be wrong where the store refuses everything.
func notLetIn(url, group string, err error) error {
	if !errors.Is(err, metastore.ErrDenied) {
		return err
	}
	a, wrong := dial.Parse(url)
	if wrong != nil {
		return err
	}
	if a.User == "" {
		return fmt.Errorf("the store asks who this is, or doesn't let the user of the certificate into the group %s: "+
			"name a user in the URL, such as %s://ann@%s, or show a certificate that has a role (--store-cert): %w",
			group, a.Engine, a.Hosts[0], err)
	}
	return fmt.Errorf("user %s isn't let into the group %s: it has another password, or no role there (`store roles` "+
		"shows the roles to those who have one): %w", a.User, group, err)
}

// explained says what a user may, where the store refuses what the command does.
func explained(ctx context.Context, c *app.Call, s *metastore.Store, err error) error {
	if !errors.Is(err, metastore.ErrDenied) {
		return err
	}
	group, wrong := Group(c)
	if wrong != nil {
		return err
	}
	do := c.Command.Name
	if do == "store" || do == "cluster" {
		do = strings.TrimSpace(do + " " + c.Args().First())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainMax)
	defer cancel()
	return fleet.Explain(ctx, s, group, do, err)
}

// explainMax is how long a refusal may take to be explained.
const explainMax = 2 * time.Second

// URL is that of the store, or of the door, or "" where none is named.
func URL(c *app.Call) string {
	if door := c.String("door"); door != "" {
		return doorway.Scheme + door
	}
	return cmp.Or(c.String("store"), os.Getenv("DISCO_STORE"))
}

// Group is the group's name. It is one name: groups that lie in each other would see each other.
func Group(c *app.Call) (string, error) {
	if c.String("door") != "" {
		return doorway.Group, nil
	}
	group := c.String("group")
	err := CheckName(group)
	if err == nil {
		err = metastore.CheckKey("", group, true) // the store's own name
	}
	if err != nil {
		return "", app.Usage("--group: %v", err)
	}
	return group, nil
}

// CheckName refuses what isn't one name of a key.
func CheckName(name string) error {
	if strings.Contains(name, "/") || name == "" {
		return fmt.Errorf("found %.80q, want one name of a key, without a slash", name)
	}
	_, err := metastore.Path("", name)
	return err
}

// Bounded is a context for one answer of the store.
func Bounded(ctx context.Context, c *app.Call) (context.Context, context.CancelFunc, error) {
	timeout := c.Duration("store-timeout")
	if timeout <= 0 {
		return nil, nil, app.Usage("--store-timeout: found %v, want more than 0", timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the --store-timeout of %v is over", timeout))
	return ctx, cancel, nil
}

// Stepped is a context for work of many steps, each of which has the --store-timeout: step says that one is done.
func Stepped(ctx context.Context, c *app.Call) (stepped context.Context, step, stop func(), err error) {
	timeout := c.Duration("store-timeout")
	if timeout <= 0 {
		return nil, nil, nil, app.Usage("--store-timeout: found %v, want more than 0", timeout)
	}
	stepped, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(timeout, func() {
		cancel(fmt.Errorf("no step was done within the --store-timeout of %v", timeout))
	})
	return stepped, func() { late.Reset(timeout) }, func() { late.Stop(); cancel(nil) }, nil
}

// WithStore runs a command that uses the store, and ends by signals.
func WithStore(c *app.Call, a Access, f func(ctx context.Context, s *metastore.Store) error) error {
	ctx, undo := c.Interruptible()
	defer undo()
	s, err := Connect(ctx, c, a)
	if err == nil {
		err = explained(ctx, c, s, f(ctx, s))
		err = errors.Join(err, s.Close())
	}
	var ended *app.Ended
	if err != nil && errors.As(context.Cause(ctx), &ended) {
		return ended // what was cut short says nothing else
	}
	return err
}
