// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	fleetagent "github.com/disco-sim/disco/fleet/agent"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/local"
	"github.com/disco-sim/disco/internal/checkpoint/storeblobs"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

// executorFlags are those of an agent that simulates experiments.
func executorFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "executor", Usage: "simulate pieces of the group's experiments, `HOW`: local, by " +
			"processes of this machine; ssh, by machines of a list; slurm, by jobs of Slurm; " +
			"kubernetes, by pods"},
		&cli.StringFlag{Name: "work", Usage: "`FOLDER` for scenarios and what runs write; with --executor, one of " +
			"the user's cache if not given"},
		&cli.DurationFlag{Name: "grace", Value: 10 * time.Second,
			Usage: "`TIME` that a run has to end at a checkpoint, before it is killed"},
		&cli.IntFlag{Name: "keep", Value: keepDefault,
			Usage: "`N` experiments that have ended stay in the store, while this agent leads; those beyond " +
				"that until 300 s behind their end"},
	}, experiments.AdmissionFlags("this agent leads"), remoteFlags())
}

// keepDefault is how many experiments that have ended stay.
const keepDefault = 1000

// checkExecutor refuses flags that don't go together.
func checkExecutor(c *app.Call) error {
	for _, flag := range []string{"work", "grace", "keep", "max-queue", "max-open", "max-rate"} {
		if c.String("executor") == "" && c.IsSet(flag) {
			return app.Usage("--%s is for an agent with --executor", flag)
		}
	}
	if err := experiments.CheckAdmission(c); err != nil {
		return err
	}
	switch name := c.String("executor"); {
	case name == "":
		return nil
	case !slices.Contains([]string{executorLocal, executorSSH, executorSlurm, executorKubernetes}, name):
		return app.Usage("--executor: found %q, want local, ssh, slurm or kubernetes", name)
	case groupcall.URL(c) == "":
		return app.Usage("--executor: found no --store, want the URL of the store in which experiments are")
	case c.Int("keep") < 1 || c.Int("keep") > fleet.MaxExperiments/2:
		return app.Usage("--keep: found %d, want 1 to %d", c.Int("keep"), fleet.MaxExperiments/2)
	case c.Duration("grace") < 100*time.Millisecond:
		return app.Usage("--grace: found %v, want at least 100ms", c.Duration("grace"))
	}
	return checkRemote(c, c.String("executor"))
}

// rulesOf are what this agent leads by; they keep nothing where it has no executor.
func rulesOf(c *app.Call) fleet.Rules {
	if c.String("executor") == "" {
		return fleet.Rules{}
	}
	return fleet.Rules{Keep: c.Int("keep"), Admission: experiments.AdmissionOf(c)}
}

// localOptions are what this agent's runs are started with.
func localOptions(c *app.Call, name string) (o local.Options, err error) {
	f, _, err := groupcall.OpenProgram(c)
	if err != nil {
		return o, err
	}
	o = local.Options{Program: f.Name(), Work: c.String("work"), Grace: c.Duration("grace"),
		Owner: c.String("group") + "/" + name}
	if err := f.Close(); err != nil {
		return o, err
	}
	if o.Program, err = filepath.Abs(o.Program); err != nil {
		return o, fmt.Errorf("--program: %w", err)
	}
	if o.Work == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, app.Usage("--work: there is no folder for the user's cache (%v): name one", err)
		}
		o.Work = filepath.Join(cache, "disco", "fleet", c.String("group"), name)
	}
	o.Env, err = storeEnvironment(c)
	return o, err
}

// storeEnvironment has what reaches places in the group's store.
func storeEnvironment(c *app.Call) (env []string, err error) {
	for flag, variable := range map[string]string{"store-ca": "DISCO_STORE_CA", "store-cert": "DISCO_STORE_CERT",
		"store-key": "DISCO_STORE_KEY"} {
		path := c.String(flag)
		if path == "" {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		env = append(env, variable+"="+path)
	}
	if path := c.String("store-password-file"); path != "" {
		text, err := infile.Read(path, infile.Kind{Name: "a file with a password", BytesMax: 4096})
		if err != nil {
			return nil, fmt.Errorf("the store's password: %w", err)
		}
		env = append(env, "DISCO_STORE_PASSWORD="+strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
	}
	return env, nil
}

// awaitName waits until an agent may have its name, before it opens its executor: another one of that name would lose
// what it has on other machines by that, since their hosts take the new one for its next life.
func awaitName(ctx context.Context, c *app.Call, s *metastore.Store, o *cluster.Options) error {
	joining, cancel, err := boundedJoin(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	return cluster.AwaitName(joining, s, *o)
}

// newFleetAgent opens the executor, and makes the agent of a member; nil where it has none. With h, what simulates here
// may take part of gangs of several machines.
func newFleetAgent(ctx context.Context, c *app.Call, s *metastore.Store, o *cluster.Options,
	h *hosting) (*fleetagent.Agent, error) {
	if c.String("executor") == "" {
		return nil, nil
	}
	if err := awaitName(ctx, c, s, o); err != nil {
		return nil, err
	}
	lo, err := localOptions(c, o.Name)
	if err != nil {
		return nil, err
	}
	joining, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	client, err := fleet.New(joining, s, fleet.Options{By: o.Name, From: "agent"})
	if err != nil {
		return nil, err
	}
	lo.Fetch = client.Blob
	lo.Bring = func(ctx context.Context, j *executor.Job, dir string) ([]string, error) {
		return experiments.FetchResults(ctx, c, j.Pieces(), j.PlaceOf, dir, storeblobs.QuietMax)
	}
	gangs := h != nil && c.String("executor") == executorLocal
	if gangs {
		if lo.Joins, err = joinFlags(c); err != nil {
			return nil, err
		}
	}
	e, err := openExecutor(ctx, c, lo, o.Report)
	if err != nil {
		return nil, err
	}
	url := groupcall.URL(c)
	ao := fleetagent.Options{Member: o.Name, Store: client, Executor: e, Report: o.Report, Trouble: s.Trouble,
		Place: func(spec *fleet.Spec, p fleet.PieceID) string {
			return experiments.PlaceOf(url, c.String("group"), spec, p)
		}}
	if gangs {
		security, err := securityOf(c)
		if err != nil {
			return nil, err
		}
		h.ways = &ways{self: o.Name, security: security}
		ao.Runs, ao.Ways, ao.Labels = &gangRuns{h, c.Duration("grace") + leaveMore}, h.ways, o.Labels
		o.Roles = append(o.Roles, fleet.RoleGang)
	}
	a := fleetagent.New(ao)
	if gangs {
		h.book.Claims(a.Claim)
	}
	o.Runner = a.Runner
	return a, nil
}

// closeFleetAgent ends what the agent's executor has.
func closeFleetAgent(c *app.Call, a *fleetagent.Agent) error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.Duration("grace")+executorEndMax)
	defer cancel()
	return a.Close(ctx)
}

// executorEndMax is how long an executor may take to end, beside graces.
const executorEndMax = 30 * time.Second

// sweepKilled ends what an agent has left on this machine that was killed, so that nobody else begins with it too
// early. Hosts on other machines hear of its end, and end.
func sweepKilled(c *app.Call, name string) error {
	if c.String("executor") != executorLocal {
		return nil
	}
	o, err := localOptions(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*o.Grace+executorEndMax)
	defer cancel()
	l, err := local.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(l.Close(ctx))
}
