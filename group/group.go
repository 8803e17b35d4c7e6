// SPDX-License-Identifier: Apache-2.0

// Package group is the commands for machines that belong together: what is in their store, who is there, and the agent
// that makes a machine one of them. They are a program of their own, disco-group, since a store's client is as large as
// all of disco-run; package beside makes them commands of other programs.
//
// Guarantee: no password is taken from an argument, or shown. A command that waits for the store ends after
// --store-timeout, saying for how long it has tried, or by a signal.
//
//	func main() { app.MainWith(group.Commands()) }
package group

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/urfave/cli/v2"
)

// Commands are store, cluster, agent, machines and certs, those for experiments (submit, list, show, …), and what an
// agent starts as a run's bridge, and on other machines as a host of its attempts, a run over machines as its child,
// and checkpoints in an object store as what reaches it.
func Commands() []app.Command {
	return append([]app.Command{storeCommand(), clusterCommand(), agentCommand(), machinesCommand(), certsCommand(),
		bridgeCommand(), hostCommand(), childCommand(), namesCommand(), blobsCommand(), resultsCommand(),
		watchCommand(), logsCommand()}, experimentCommands()...)
}

// storeFlags are those of every command that uses a store.
func storeFlags() []cli.Flag {
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

// access is what a command wants of a group.
type access struct {
	makes   bool          // the group, where it isn't there
	session time.Duration // 0: as long as sessions last usually
}

// looks is the access of those who look at what is there, or change it: a mistyped name makes nothing.
var looks access

// connect opens the store that the flags name. Everything that uses it should end with ctx.
func connect(ctx context.Context, c *app.Call, a access) (*metastore.Store, error) {
	url := storeURL(c)
	if url == "" {
		return nil,
			app.Usage("which store is meant? Name it with --store URL, or in DISCO_STORE: %s; `%s server` starts one",
				dial.Form, c.Program)
	}
	ctx, cancel, err := bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	group, err := groupOf(c)
	if err != nil {
		return nil, err
	}
	// What goes wrong beside a command is for people: a line each.
	report := func(problem error) { fmt.Fprintf(c.Stderr, "%s: %v\n", c.Program, problem) }
	store, err := dial.Open(ctx, dial.Options{URL: url, CA: c.String("store-ca"), Cert: c.String("store-cert"),
		Key: c.String("store-key"), PasswordFile: c.String("store-password-file"),
		Password: os.Getenv("DISCO_STORE_PASSWORD"), TTL: a.session,
		Store: metastore.Options{Group: group, Base: append(cluster.Base(), fleet.Base()...), Existing: !a.makes,
			Report: report}})
	if errors.Is(err, metastore.ErrNoGroup) {
		return nil, app.Usage("--group: %v: `agent`, `store put` or `store queue --push` makes one", err)
	}
	var wrong *dial.OptionsError
	if errors.As(err, &wrong) {
		return nil, app.Usage("%v", err)
	}
	return store, err
}

// storeURL is that of the store, or "" where none is named.
func storeURL(c *app.Call) string { return cmp.Or(c.String("store"), os.Getenv("DISCO_STORE")) }

// groupOf is the group's name. It is one name: groups that lie in each other would see each other.
func groupOf(c *app.Call) (string, error) {
	group := c.String("group")
	err := checkName(group)
	if err == nil {
		err = metastore.CheckKey("", group, true) // the store's own name
	}
	if err != nil {
		return "", app.Usage("--group: %v", err)
	}
	return group, nil
}

// checkName refuses what isn't one name of a key.
func checkName(name string) error {
	if strings.Contains(name, "/") || name == "" {
		return fmt.Errorf("found %.80q, want one name of a key, without a slash", name)
	}
	_, err := metastore.Path("", name)
	return err
}

// bounded is a context for one answer of the store.
func bounded(ctx context.Context, c *app.Call) (context.Context, context.CancelFunc, error) {
	timeout := c.Duration("store-timeout")
	if timeout <= 0 {
		return nil, nil, app.Usage("--store-timeout: found %v, want more than 0", timeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the --store-timeout of %v is over", timeout))
	return ctx, cancel, nil
}

// withStore runs a command that uses the store, and ends by signals.
func withStore(c *app.Call, a access, f func(ctx context.Context, s *metastore.Store) error) error {
	ctx, undo := c.Interruptible()
	defer undo()
	s, err := connect(ctx, c, a)
	if err == nil {
		err = errors.Join(f(ctx, s), s.Close())
	}
	var ended *app.Ended
	if err != nil && errors.As(context.Cause(ctx), &ended) {
		return ended // what was cut short says nothing else
	}
	return err
}

// writeJSON writes one JSON value and a newline: on several lines for people, or on one, where more follow.
func writeJSON(w io.Writer, value any, oneLine bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !oneLine {
		e.SetIndent("", "  ")
	}
	return e.Encode(value)
}
