// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/door"
	"github.com/disco-sim/disco/fleet/doorway"
	"github.com/disco-sim/disco/internal/checkpoint/storeblobs"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/urfave/cli/v2"
)

func doorCommand() app.Command {
	return app.Command{
		Name: "door", Usage: "accepts experiments for several groups, and gives each to the one that fits",
		Description: "--sites FILE names the groups, each in a store of its own, and the home, in which the door\n" +
			"keeps what was accepted and its results. Several doors may have one home: one of them decides.\n" +
			"People reach it with --door HOST:PORT instead of --store. It knows them by their certificates, and\n" +
			"with --tokens by tokens; `store roles` at the home says who may do what. Ctrl-C or SIGTERM end it;\n" +
			"experiments go on.",
		Examples: []string{"door --sites sites.yml --listen 10.0.0.9:7443 --door-tls h9",
			"door --sites sites.yml --listen 10.0.0.9:7443 --door-tls h9 --tokens --away 5m",
			"door --sites sites.yml --listen 127.0.0.1:7443 --insecure"},
		Flags: slices.Concat(groupcall.DoorSecurityFlags(), []cli.Flag{
			&cli.StringFlag{Name: "sites", Usage: "`FILE` that names the home and the sites"},
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` at which people reach it; with port 0 any free one"},
			&cli.BoolFlag{Name: "tokens", Usage: "let users in who show a token instead of a certificate"},
			&cli.DurationFlag{Name: "away", Value: 2 * time.Minute, Usage: "`TIME` without an answer of a site after " +
				"which others get its experiments; after half of it they stand still there"},
			&cli.IntFlag{Name: "keep", Value: 1000, Usage: "how many experiments stay that have ended"},
			&cli.DurationFlag{Name: "store-timeout", Value: 10 * time.Second, Usage: "`TIME` to wait for the home"},
		}, AdmissionFlags("this door decides")),
		Run: runDoor,
	}
}

func runDoor(c *app.Call) error {
	switch {
	case c.NArg() > 0:
		return app.Usage("found the argument %q, want none: flags say everything", c.Args().First())
	case c.String("sites") == "":
		return app.Usage("want --sites FILE, which names the home and the sites")
	case c.String("listen") == "":
		return app.Usage("want --listen HOST:PORT, at which people reach the door")
	case c.Duration("away") < 10*time.Second || c.Duration("away") > 24*time.Hour:
		return app.Usage("--away: found %v, want 10s to 24h", c.Duration("away"))
	case c.Int("keep") < 1 || c.Int("keep") > fleet.MaxExperiments/2:
		return app.Usage("--keep: found %d, want 1 to %d", c.Int("keep"), fleet.MaxExperiments/2)
	}
	if err := CheckAdmission(c); err != nil {
		return err
	}
	file, err := readSites(c.String("sites"))
	if err != nil {
		return app.Usage("%v", err)
	}
	security := groupcall.DoorSecurity(c)
	secure, peer, err := security.Serves(c.String("listen"))
	if err != nil {
		return app.Usage("--listen: %v", err)
	}
	ctx, undo := c.Interruptible()
	defer undo()
	d := &doors{c: c, home: connection{at: file.Home}}
	for _, at := range file.Sites {
		d.sites = append(d.sites, &connection{at: at})
	}
	defer d.close()
	opening, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	if err := d.home.open(opening, d.report, true); err != nil {
		return fmt.Errorf("the home: %w", err)
	}
	server, err := doorway.Listen(c.String("listen"), doorway.Options{Home: d.home.backend, Root: d.home.root(""),
		Results: d.home.root(KeptSuffix), Site: d.siteOf, TLS: secure, Peer: peer})
	if err != nil {
		return app.Usage("--listen: %v", err)
	}
	fmt.Fprintf(c.Stdout, "%s: the door is open at %v, to %s\n", c.Program, server.At,
		table.Plural(len(d.sites), "site"))
	return d.run(ctx, server)
}

// doors is a door's process.
type doors struct {
	c     *app.Call
	home  connection
	sites []*connection
}

func (d *doors) report(problem error) { fmt.Fprintf(d.c.Stderr, "%s: %v\n", d.c.Program, problem) }

// run serves, and is a candidate for deciding, until ctx ends.
func (d *doors) run(ctx context.Context, server *doorway.Server) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		if err := server.Serve(); err != nil {
			cancel(err)
		}
	})
	defer server.Close()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	o := door.Options{Name: host + ":" + fmt.Sprint(server.At.Port()), ID: d.home.store.Cluster(), Home: d.home.client,
		Report: d.report, Sweep: d.sweep, Rules: door.Rules{Away: d.c.Duration("away"), Keep: d.c.Int("keep"),
			Admission: AdmissionOf(d.c)}}
	for _, s := range d.sites {
		o.Sites = append(o.Sites, door.Site{Name: s.at.Name, Least: s.at.Machines,
			Open: func(ctx context.Context) (*door.Access, error) { return d.access(ctx, s) }})
	}
	all.Go(func() {
		select {
		case <-d.home.store.Wrong(): // nothing that it knows is true any more
			cancel(metastore.ErrWrongCluster)
		case <-ctx.Done():
		}
	})
	err = door.Run(ctx, o, func(ctx context.Context) (*metastore.Lead, error) {
		return d.home.store.Campaign(ctx, door.Key, o.Name)
	})
	ended := (*app.Ended)(nil)
	if cause := context.Cause(ctx); err == nil && !errors.As(cause, &ended) {
		err = cause
	}
	if err == nil {
		_, err = fmt.Fprintf(d.c.Stdout, "%s: the door has closed\n", d.c.Program)
	}
	return err
}

func (d *doors) close() {
	for _, s := range append(d.sites, &d.home) {
		s.close()
	}
}

// access connects to a site, or gives the connection that is there.
func (d *doors) access(ctx context.Context, s *connection) (*door.Access, error) {
	if err := s.open(ctx, d.report, false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &door.Access{Client: s.client, Machines: s.machines, Take: func(ctx context.Context, home *fleet.Spec,
		p fleet.PieceID, k *fleet.Kept) (string, error) {
		return PlaceOf(d.home.at.URL, d.home.at.Group, home, p), d.take(ctx, s, home, p)
	}}, nil
}

// take brings the part of a piece home.
func (d *doors) take(ctx context.Context, s *connection, home *fleet.Spec, p fleet.PieceID) error {
	from, err := s.openParts(ctx)
	if err != nil {
		return err
	}
	to, err := d.home.openParts(ctx)
	if err != nil {
		return err
	}
	key := partKey(home.PlaceID(), p)
	return copyBlobs(ctx, storeblobs.New(from, key, "site "+s.at.Name, "the door"),
		storeblobs.New(to, key, "the home", "the door"))
}

// sweep removes the parts at home of experiments that aren't there any more.
func (d *doors) sweep(ctx context.Context) error {
	parts, err := d.home.openParts(ctx)
	if err != nil {
		return err
	}
	_, err = RemoveLeft(ctx, d.home.client, parts)
	return err
}

// siteOf is where an experiment is now, or was before, for those who look at it.
func (d *doors) siteOf(ctx context.Context, id string, before int) (doorway.Site, error) {
	e, err := d.home.client.Show(ctx, id)
	if err != nil {
		return doorway.Site{}, err
	}
	none := fmt.Errorf("%s is at no site", id)
	if e.Route == nil || before > len(e.Route.Tried) {
		return doorway.Site{}, none
	}
	name, epoch := e.Route.Site, e.Route.Epoch
	if before > 0 {
		was := e.Route.Tried[len(e.Route.Tried)-before]
		name, epoch = was.Site, was.Epoch
	}
	for _, s := range d.sites {
		if s.at.Name != name {
			continue
		}
		if err := s.open(ctx, d.report, false); err != nil {
			return doorway.Site{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.store == nil {
			break
		}
		return doorway.Site{Backend: s.backend, Root: s.root(""), ID: fleet.SiteID(id, epoch)}, nil
	}
	return doorway.Site{}, none
}

// connection is one with a group: the home, or a site.
type connection struct {
	at storeAt

	opening sync.Mutex // held while it is opened
	mu      sync.Mutex
	backend metastore.Backend
	store   *metastore.Store
	client  *fleet.Client
	view    *cluster.View
	parts   *metastore.Store
}

// root is the absolute path of the group, or of the tree beside it.
func (s *connection) root(suffix string) string {
	a, err := dial.Parse(s.at.URL) // it was parsed before
	if err != nil || a.Chroot == "" {
		return "/" + s.at.Group + suffix
	}
	return "/" + a.Chroot + "/" + s.at.Group + suffix
}

// open connects, unless it is connected to what is still the same store.
func (s *connection) open(ctx context.Context, report func(error), home bool) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	store := s.store
	s.mu.Unlock()
	if store != nil {
		select {
		case <-store.Wrong():
			s.close()
		default:
			return nil
		}
	}
	backend, store, err := dial.OpenBoth(ctx, s.at.options(metastore.Options{Group: s.at.Group,
		Base: append(cluster.Base(), fleet.Base()...), Existing: !home, Report: report}))
	if err != nil {
		return err
	}
	client, err := fleet.New(ctx, store, fleet.Options{By: groupcall.Who(), From: "door"})
	var view *cluster.View
	if err == nil && !home {
		view, err = cluster.Open(ctx, store)
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend, s.store, s.client, s.view = backend, store, client, view
	return nil
}

// close ends the connection.
func (s *connection) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil {
		s.view.Close()
	}
	for _, store := range []*metastore.Store{s.store, s.parts} {
		if store != nil {
			_ = store.Close() // its session ends anyway
		}
	}
	s.backend, s.store, s.client, s.view, s.parts = nil, nil, nil, nil, nil
}

// openParts opens the tree of the group's parts.
func (s *connection) openParts(ctx context.Context) (*metastore.Store, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	parts := s.parts
	s.mu.Unlock()
	if parts != nil {
		return parts, nil
	}
	o := s.at.options(storeblobs.Options(""))
	o.URL = strings.TrimRight(o.URL, "/") + "/" + s.at.Group + KeptSuffix
	parts, err := dial.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = parts
	return parts, nil
}

// machines are those of a site that simulate, and aren't drained.
func (s *connection) machines(ctx context.Context) (all []door.Machine, err error) {
	s.mu.Lock()
	view, store := s.view, s.store
	s.mu.Unlock()
	if view == nil {
		return nil, metastore.ErrClosed
	}
	health, err := fleet.ReadHealth(ctx, store)
	if bad := (*fleet.MalformedError)(nil); err != nil && !errors.As(err, &bad) { // a newer build's: all are well
		return nil, err
	}
	servers := map[string][]cluster.Server{}
	for _, sv := range view.Servers() {
		servers[sv.Info.Member] = append(servers[sv.Info.Member], sv)
	}
	drained := view.Drained()
	for _, m := range view.Members() {
		if m.Status != cluster.Up || !slices.Contains(m.Roles, fleet.Role) || slices.Contains(drained, m.Name) {
			continue
		}
		is := door.Machine{Name: m.Name, Version: m.Version, Labels: m.Labels}
		if h := health.Machines[m.Name].Health; h == fleet.Full || h == fleet.Stuck {
			is.Unwell = true
		}
		for _, sv := range servers[m.Name] {
			if slices.Contains(drained, sv.Name) {
				continue
			}
			is.Servers++
			if sv.State == cluster.Available {
				is.Free++
			}
		}
		all = append(all, is)
	}
	return all, nil
}
