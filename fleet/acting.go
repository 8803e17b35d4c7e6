// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Acting is a user for whom somebody else writes to the store, such as a door: whoever that is answers for what the
// user writes.
type Acting struct {
	User string
	From string // where the user is, as whoever writes sees it
	Now  time.Time
	// Get reads a key of the group as it is.
	Get func(ctx context.Context, key string) (metastore.Node, error)
	// Names lists what is right below a key.
	Names func(ctx context.Context, key string) ([]string, error)
	// History is how many entries the audit keeps of a user; 10,000 if 0.
	History int
}

// Check holds a commit of a user against what a user's client writes, and puts into its entry of the audit who that is,
// when it was and where from. Paths are keys of the group. Each submission and each wish must have its entry, which
// says what is done, and an entry must have what it says: so nothing is done without one, none says what wasn't done,
// and what was done can't be done again by sending the same once more. The error is metastore.ErrDenied where it isn't
// so.
func (a *Acting) Check(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	var act, entry, first *metastore.Op
	for i := range ops {
		op := &ops[i]
		_, name, _ := strings.Cut(strings.TrimPrefix(op.Path, keyExperiments+"/"), "/")
		isEntry := strings.HasPrefix(op.Path, keyAudit+"/")
		var err error
		switch {
		case isEntry && op.Do == metastore.Delete:
			err = a.checkTrim(ctx, op.Path)
		case isEntry && entry != nil:
			err = a.refused("several entries in the audit in one commit")
		case isEntry:
			entry = op
		case !strings.HasPrefix(op.Path, keyExperiments+"/"):
		case name == "wish" && op.Do == metastore.Create:
			first = op
		case act != nil:
			err = a.refused("several experiments in one commit")
		default:
			act = op
		}
		if err != nil {
			return err
		}
	}
	switch {
	case act == nil && entry == nil && first == nil:
		return nil
	case act == nil:
		return a.refused("an entry in the audit, or a wish, about nothing that is there")
	case entry == nil:
		return a.refused(act.Path + " without an entry in the audit")
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(act.Path, keyExperiments+"/"), "/")
	what, err := a.what(ctx, id, act, conds, ops)
	if err != nil {
		return err
	}
	return a.stamp(entry, id, what)
}

// refused is the error about what no client of ours writes.
func (a *Acting) refused(what string) error {
	return fmt.Errorf("%w: user %s: found %.300s, which isn't written by people", metastore.ErrDenied, a.User, what)
}

// what is what a commit does with an experiment, as the audit calls it.
func (a *Acting) what(ctx context.Context, id string, act *metastore.Op, conds []metastore.Cond,
	ops []metastore.Op) (string, error) {
	if act.Path == specKey(id) {
		var spec Spec
		if err := metastore.Raw(act.Path, act.Value).Decode(&spec); err != nil {
			return "", a.refused(err.Error())
		}
		if spec.User != a.User || spec.ID != id || Owner(id) != a.User || spec.Home != nil {
			return "", a.refused(fmt.Sprintf("a specification of user %.80q with the id %.80q at %s", spec.User,
				spec.ID, act.Path))
		}
		return "submit", a.checkFirst(id, ops)
	}
	n, err := a.Get(ctx, act.Path)
	if err != nil {
		return "", err
	}
	var was, is Wish
	err = errors.Join(metastore.Raw(act.Path, n.Value).Decode(&was), metastore.Raw(act.Path, act.Value).Decode(&is))
	if err != nil {
		return "", a.refused(err.Error())
	}
	if !slices.Contains(conds, at(act.Path, n.Version)) {
		return "", &metastore.ConflictError{Cond: at(act.Path, n.Version)} // it was read before somebody changed it
	}
	what := deedFor(&was, &is)
	byOther := is.By != a.User && (!strings.HasPrefix(what, doPriority) || is.By != was.By || is.Why != was.Why)
	if what == "" || byOther || is.Number != was.Number+1 {
		return "", a.refused(fmt.Sprintf("the wish %d by %.80q behind %d by %.80q", is.Number, is.By, was.Number,
			was.By))
	}
	return what, nil
}

// checkFirst holds the first wish of a submission against whose it is.
func (a *Acting) checkFirst(id string, ops []metastore.Op) error {
	i := slices.IndexFunc(ops, func(op metastore.Op) bool { return op.Path == wishKey(id) })
	n := 0
	for _, op := range ops {
		if strings.HasPrefix(op.Path, keyExperiments+"/") {
			n++
		}
	}
	if i < 0 || n != 2 {
		return a.refused(fmt.Sprintf("%s with %d other keys of experiments, and no wish of its own", specKey(id), n-1))
	}
	var w Wish
	if err := metastore.Raw(ops[i].Path, ops[i].Value).Decode(&w); err != nil || w.By != a.User || w.Number != 1 {
		return a.refused(fmt.Sprintf("the first wish by %.80q (%v)", w.By, err))
	}
	return nil
}

// deedFor is what a wish changes, as the audit calls it; "" where no client changes that.
func deedFor(was, is *Wish) string {
	switch {
	case is.Retry == was.Retry+1 && is.Want == WantRun && is.From != "":
		return doFrom + " " + is.From
	case is.Retry == was.Retry+1 && is.Want == WantRun:
		return doRetry
	case is.Retry != was.Retry:
		return ""
	case is.Want != was.Want && is.Want == WantCancel:
		return doCancel
	case is.Want != was.Want && is.Want == WantPause:
		return doPause
	case is.Want != was.Want:
		return doContinue
	case is.Priority != was.Priority:
		return doPriority + " " + string(is.Priority)
	}
	return ""
}

// stamp completes an entry of the audit.
func (a *Acting) stamp(entry *metastore.Op, id, what string) error {
	var e Deed
	err := metastore.Raw(entry.Path, entry.Value).Decode(&e)
	if err == nil {
		err = e.check()
	}
	if err != nil || e.By != a.User || e.ID != id || e.What != what {
		return a.refused(fmt.Sprintf("an entry that %.80q has done %.80q with %.80q where %s does %q with %s (%v)",
			e.By, e.What, e.ID, a.User, what, id, err))
	}
	e.At, e.From = a.Now, strings.TrimPrefix(e.From+", ", ", ")+a.From
	if len(e.From) > maxName { // what the user says of it is as long as may be
		e.From = a.From
	}
	entry.Value, err = metastore.EncodeRaw(e)
	return err
}

// checkTrim refuses to delete an entry of the audit that isn't among those that are too many.
func (a *Acting) checkTrim(ctx context.Context, path string) error {
	dir := keyAudit + "/" + a.User
	names, err := a.Names(ctx, dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	most := cmp.Or(a.History, historyDefault)
	if i := slices.Index(names, strings.TrimPrefix(path, dir+"/")); i < 0 || i >= len(names)-most {
		return a.refused(fmt.Sprintf("a removal of %s from the audit, which keeps the last %d entries", path, most))
	}
	return nil
}
