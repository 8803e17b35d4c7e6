// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// Experiment is what the store has of one, without its pieces. What can't be read is in Malformed, and hides nothing
// else; a part that is there has passed its checks.
type Experiment struct {
	ID         string
	Order      uint64 // of submission: rises over all experiments of a group
	Spec       *Spec  // nil: it can't be read
	Wish       *Wish  // nil: it can't be read
	WishAt     metastore.Version
	Standing   *Standing         // nil: the leader hasn't seen it yet, or it can't be read
	StandingAt metastore.Version // zero: there is none
	Route      *Route            // nil: it isn't a door's, or wasn't given to a site yet, or can't be read
	RouteAt    metastore.Version // zero: there is none
	Malformed  []error           // each a *MalformedError
}

// Ended tells whether nothing of it runs or waits, nor will by a retry that was asked for.
func (e *Experiment) Ended() bool {
	return e.Standing != nil && e.Standing.Ended && (e.Wish == nil || e.Wish.Retry <= e.Standing.Retry)
}

// Status is what is known of it: SUBMITTED where the leader hasn't seen it yet.
func (e *Experiment) Status() Status {
	if e.Standing == nil {
		return StatusSubmitted
	}
	return e.Standing.Status
}

// Name is the experiment's, or "" where it can't be read.
func (e *Experiment) Name() string {
	if e.Spec == nil {
		return ""
	}
	return e.Spec.Name
}

// IDs are those of all experiments.
func (c *Client) IDs(ctx context.Context) ([]string, error) { return c.names(ctx, keyExperiments) }

// List reads all experiments, in the order of their submission.
func (c *Client) List(ctx context.Context) ([]Experiment, error) {
	values, err := c.store.Walk(ctx, keyExperiments)
	if err != nil {
		return nil, err
	}
	var all []Experiment
	for len(values) > 0 {
		id := idOf(values[0].Key())
		n := 1
		for n < len(values) && idOf(values[n].Key()) == id {
			n++
		}
		if e := experiment(id, values[:n]); e != nil {
			all = append(all, *e)
		}
		values = values[n:]
	}
	slices.SortFunc(all, func(a, b Experiment) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// idOf is the experiment's id in the key of one of its values, or "" in the key of their directory.
func idOf(key string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(key, keyExperiments), "/"), "/")
	return id
}

// experiment reads one; nil where there is none.
func experiment(id string, values []metastore.Value) *Experiment {
	e := &Experiment{ID: id}
	there := false
	read := func(v metastore.Value, into interface{ check() error }) bool {
		there = true
		err := v.Decode(into)
		if err == nil {
			err = into.check()
		}
		if err != nil {
			e.Malformed = append(e.Malformed, &MalformedError{v.Key(), err})
		}
		return err == nil
	}
	for _, v := range values {
		if id == "" || !v.HasValue() {
			continue
		}
		switch v.Key() {
		case specKey(id):
			e.Order = v.Version.Created
			if s := new(Spec); read(v, s) {
				e.Spec = s
			}
			if owner := Owner(id); e.Spec != nil && owner != "" && owner != e.Spec.User {
				e.Malformed = append(e.Malformed, &MalformedError{v.Key(), fmt.Errorf("found the user %.80q in an "+
					"experiment of user %s", e.Spec.User, owner)})
				e.Spec = nil
			}
			if e.Spec != nil && e.Spec.ID != id {
				e.Malformed = append(e.Malformed, &MalformedError{v.Key(), fmt.Errorf("found the id %.40q, want its "+
					"key's", e.Spec.ID)})
				e.Spec = nil
			}
		case wishKey(id):
			e.WishAt = v.Version
			if w := new(Wish); read(v, w) {
				e.Wish = w
			}
		case routeKey(id):
			e.RouteAt = v.Version
			if r := new(Route); read(v, r) {
				e.Route = r
			}
		case statusKey(id):
			e.StandingAt = v.Version
			if s := new(Standing); read(v, s) {
				e.Standing = s
			}
		}
	}
	if !there {
		return nil
	}
	for _, must := range []struct {
		there bool
		key   string
	}{{e.Order != 0, specKey(id)}, {e.WishAt != metastore.Version{}, wishKey(id)}} {
		if !must.there {
			e.Malformed = append(e.Malformed, &MalformedError{must.key, errors.New("it is missing")})
		}
	}
	return e
}

// Show reads one experiment. ErrGone where there is none of this id.
func (c *Client) Show(ctx context.Context, id string) (*Experiment, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	values, err := c.store.Walk(ctx, keyExperiments+"/"+id)
	if err != nil {
		return nil, err
	}
	e := experiment(id, values)
	if e == nil {
		return nil, fmt.Errorf("%s: %w", id, ErrGone)
	}
	return e, nil
}

// Attended tells whether a machine of the group takes pieces: a member that has the role fleet and isn't leaving, or of
// which that can't be read. Where none does nobody leads either, so that nothing of an experiment changes.
func (c *Client) Attended(ctx context.Context) (bool, error) {
	members, malformed, err := cluster.ReadMembers(ctx, c.store)
	return len(malformed) > 0 || slices.ContainsFunc(members, func(m cluster.Member) bool {
		return m.Status != cluster.Leaving && slices.Contains(m.Roles, Role)
	}), err
}

// PieceAt is a piece, as it was read.
type PieceAt struct {
	Piece
	Version metastore.Version
}

// Pieces reads all pieces of an experiment that have begun, and what is wrong with those that can't be read.
func (c *Client) Pieces(ctx context.Context, id string) (all map[PieceID]PieceAt, malformed []error, err error) {
	if err := checkID(id); err != nil {
		return nil, nil, err
	}
	values, err := c.store.Walk(ctx, piecesKey(id))
	if err != nil {
		return nil, nil, err
	}
	all = map[PieceID]PieceAt{}
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		p := PieceAt{Version: v.Version}
		piece, err := ParsePieceID(strings.TrimPrefix(v.Key(), piecesKey(id)+"/"))
		if err == nil {
			err = v.Decode(&p.Piece)
		}
		if err == nil {
			err = p.Piece.check()
		}
		if err != nil {
			malformed = append(malformed, &MalformedError{v.Key(), err})
			continue
		}
		all[piece] = p
	}
	return all, malformed, nil
}

// ReportAt is a report, as it was read.
type ReportAt struct {
	Member  string
	ID      string
	Piece   PieceID
	Report  Report
	Version metastore.Version
}

func (r *ReportAt) key() string { return reportKey(r.Member, r.ID, r.Piece) }

// Reports reads the reports of all agents, and what is wrong with those that can't be read.
func (c *Client) Reports(ctx context.Context) (all []ReportAt, malformed []error, err error) {
	return c.reports(ctx, keyReports)
}

// ReportsOf reads the reports of one agent.
func (c *Client) ReportsOf(ctx context.Context, member string) (all []ReportAt, malformed []error, err error) {
	if err := checkName(member); err != nil {
		return nil, nil, err
	}
	return c.reports(ctx, keyReports+"/"+member)
}

func (c *Client) reports(ctx context.Context, key string) (all []ReportAt, malformed []error, err error) {
	values, err := c.store.Walk(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		r, err := reportAt(v)
		if err != nil {
			malformed = append(malformed, &MalformedError{v.Key(), err})
			continue
		}
		all = append(all, *r)
	}
	return all, malformed, nil
}

func reportAt(v metastore.Value) (*ReportAt, error) {
	r := &ReportAt{Version: v.Version}
	var err error
	if r.Member, r.ID, r.Piece, err = parseReportKey(v.Key()); err != nil {
		return nil, err
	}
	if err = v.Decode(&r.Report); err != nil {
		return nil, err
	}
	return r, r.Report.check()
}

// Report reads one agent's report of a piece; nil: there is none.
func (c *Client) Report(ctx context.Context, member, id string, p PieceID) (*ReportAt, error) {
	if err := errors.Join(checkName(member), checkID(id)); err != nil {
		return nil, err
	}
	v, err := c.store.Get(ctx, reportKey(member, id, p))
	if errors.Is(err, metastore.ErrNoNode) || err == nil && !v.HasValue() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := reportAt(v)
	if err != nil {
		return nil, &MalformedError{v.Key(), err}
	}
	return r, nil
}

// Log reads the last of what an attempt's run wrote; "" where there is none.
func (c *Client) Log(ctx context.Context, id string, a AttemptID) (text string, err error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	_, err = c.get(ctx, logKey(id, a), &text)
	return validText([]byte(text), MaxLog), err
}
