// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// submit submits shop without large files, and returns its id.
func submit(t *testing.T, c *Client, key string) string {
	t.Helper()
	return submitAs(t, c, key, shop(key).User)
}

// submitAs is submit for a user.
func submitAs(t *testing.T, c *Client, key, user string) string {
	t.Helper()
	s := shop(key)
	s.Steps[0].Attached, s.User = nil, user
	id, _, err := c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// conflicts tells whether an error is that of a condition about a key.
func conflicts(err error, key string) bool {
	c := (*metastore.ConflictError)(nil)
	return errors.As(err, &c) && c.Cond.Path == key
}

// A piece is moved with the report that it takes, once, and only by a leader that leads still.
func TestMovePieces(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c := newClient(t, b(), "g", Options{By: "ann@h1"})
		id, p, ctx := submit(t, c, "k"), PieceID{0, 0, 1}, t.Context()
		if err := c.store.Put(ctx, "lead", 1); err != nil {
			t.Fatal(err)
		}
		v, err := c.store.Get(ctx, "lead")
		if err != nil {
			t.Fatal(err)
		}
		lead := metastore.Cond{Path: "lead", Is: metastore.At, Version: v.Version}
		gang := []Server{{Name: "h1-0", Member: "h1", Incarnation: "x"}}
		first := Move{ID: id, Piece: p, To: Piece{State: Dispatched, Attempt: 1, Token: 5, Gang: gang}}
		if n, err := c.MovePieces(ctx, []Move{first}, lead); n != 1 || err != nil {
			t.Fatalf("found %d, %v", n, err)
		}
		if _, err := c.MovePieces(ctx, []Move{first}, lead); !conflicts(err, pieceKey(id, p)) {
			t.Errorf("found %v", err)
		}
		kept := &Kept{Hash: "abc", Events: 7}
		done := Report{Attempt: 1, State: Finished, Number: 3, Kept: kept}
		if err := c.PutReport(ctx, "h1", id, p, done); err != nil {
			t.Fatal(err)
		}
		pieces, bad, err := c.Pieces(ctx, id)
		was := pieces[p]
		r, errR := c.Report(ctx, "h1", id, p)
		if err != nil || errR != nil || len(bad) > 0 || r == nil || !reflect.DeepEqual(was.Piece, first.To) {
			t.Fatalf("found %+v, %v, %v, %v, %v", pieces, bad, r, err, errR)
		}
		to := Piece{State: Finished, Attempt: 1, Token: 5, Gang: gang, Kept: kept}
		last := Move{ID: id, Piece: p, Was: &was.Piece, At: was.Version, To: to, Takes: r}
		if err := c.store.Put(ctx, "lead", 2); err != nil {
			t.Fatal(err)
		}
		if _, err := c.MovePieces(ctx, []Move{last}, lead); !conflicts(err, "lead") {
			t.Errorf("one that leads no more: found %v", err)
		}
		if n, err := c.MovePieces(ctx, []Move{last}); n != 1 || err != nil {
			t.Fatalf("found %d, %v", n, err)
		}
		if r, err := c.Report(ctx, "h1", id, p); r != nil || err != nil {
			t.Errorf("found %v, %v", r, err)
		}
	})
}

// What the table of moves doesn't have isn't sent, nor what skips an attempt.
func TestMovesRefused(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{By: "ann@h1"})
	id, at := submit(t, c, "k"), metastore.Version{Created: 1, Changed: 1}
	piece := func(s PieceState, attempt int) *Piece {
		p := &Piece{State: s, Attempt: attempt}
		if s == Finished {
			p.Kept = &Kept{Hash: "x"}
		}
		return p
	}
	for _, m := range []struct {
		was  *Piece
		at   metastore.Version
		to   *Piece
		want string
	}{
		{nil, metastore.Version{}, piece(Running, 1), "can't go from WAITING to RUNNING"},
		{nil, metastore.Version{}, piece(Dispatched, 0), "want 1"},
		{piece(Waiting, 2), at, piece(Dispatched, 2), "want 3"},
		{piece(Running, 2), at, piece(Finished, 3), "want 2"},
		{piece(Finished, 1), at, piece(Finished, 1), "can't go from FINISHED to FINISHED"},
		{piece(Canceling, 1), at, piece(Running, 1), "want one of [FINISHED CANCELED]"},
		{piece(Running, 1), metastore.Version{}, piece(Held, 1), "without its version"},
		{piece(Running, 1), at, &Piece{State: Finished, Attempt: 1}, "kept"},
	} {
		_, err := c.MovePieces(t.Context(), []Move{{ID: id, Was: m.was, At: m.at, To: *m.to}})
		if err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("found %v, want %q", err, m.want)
		}
	}
	if pieces, _, err := c.Pieces(t.Context(), id); err != nil || len(pieces) > 0 {
		t.Errorf("found %v, %v", pieces, err)
	}
}

// Of many moves one commit takes as many as fit, in number and in bytes.
func TestManyMoves(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c := newClient(t, b(), "g", Options{By: "ann@h1"})
		id, commits := submit(t, c, "k"), 0
		var moves []Move
		for i := range 60 {
			p := Piece{State: Failed}
			if i >= 30 {
				p.Error = &Error{Type: ErrorModel, Trace: strings.Repeat("\x01", MaxTrace)} // six times as long in JSON
			}
			moves = append(moves, Move{ID: id, Piece: PieceID{0, 0, i}, To: p})
		}
		for len(moves) > 0 {
			n, err := c.MovePieces(t.Context(), moves)
			if err != nil || n == 0 {
				t.Fatalf("found %d, %v", n, err)
			}
			moves, commits = moves[n:], commits+1
		}
		if pieces, bad, err := c.Pieces(t.Context(), id); err != nil || len(bad) > 0 || len(pieces) != 60 {
			t.Errorf("found %d pieces, %v, %v", len(pieces), bad, err)
		}
		if commits != 9 { // 24, then 6 and 4 large ones, then 4 at a time, which have 240 kB each
			t.Errorf("found %d commits", commits)
		}
	})
}

// Of reports the newest stays, whichever comes last, and the leader is woken where the state is another one.
func TestReports(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c := newClient(t, b(), "g", Options{By: "ann@h1"})
		id, p, ctx := submit(t, c, "k"), PieceID{0, 0, 2}, t.Context()
		changed := func() metastore.Version {
			v, err := c.store.Get(ctx, keyChanged)
			if err != nil {
				t.Fatal(err)
			}
			return v.Version
		}
		broken := &Error{Type: ErrorMachine, Message: "killed"}
		for i, step := range []struct {
			r            Report
			stale, wakes bool
		}{
			{Report{Attempt: 1, State: Running, Number: 1}, false, true},
			{Report{Attempt: 1, State: Running, Number: 1}, false, false}, // again
			{Report{Attempt: 1, State: Running, Number: 2, Progress: Progress{Now: 5}}, false, false},
			{Report{Attempt: 1, State: Held, Number: 2, Error: broken}, true, false},
			{Report{Attempt: 1, State: Held, Number: 3, Error: broken}, false, true},
			{Report{Attempt: 2, State: Running, Number: 1}, false, true},
			{Report{Attempt: 1, State: Running, Number: 9}, true, false},
		} {
			before := changed()
			err := c.PutReport(ctx, "h1", id, p, step.r)
			if errors.Is(err, ErrStale) != step.stale || err != nil && !step.stale ||
				(changed() != before) != step.wakes {
				t.Errorf("report %d: found %v, woken: %v", i, err, changed() != before)
			}
		}
		all, bad, err := c.ReportsOf(ctx, "h1")
		if err != nil || len(bad) > 0 || len(all) != 1 || all[0].Report.Attempt != 2 || all[0].Member != "h1" ||
			all[0].ID != id || all[0].Piece != p {
			t.Fatalf("found %+v, %v, %v", all, bad, err)
		}
		stale := all[0]
		stale.Version.Changed--
		if err := c.RemoveReport(ctx, &stale); err != nil {
			t.Error(err)
		}
		if r, err := c.Report(ctx, "h1", id, p); r == nil || err != nil {
			t.Errorf("found %v, %v: it was removed as another one", r, err)
		}
		if err := c.RemoveReport(ctx, &all[0]); err != nil {
			t.Error(err)
		}
		if r, err := c.Report(ctx, "h1", id, p); r != nil || err != nil {
			t.Errorf("found %v, %v", r, err)
		}
		if err := c.PutReport(ctx, "h1", "none", p, Report{Attempt: 1, State: Running}); !errors.Is(err, ErrGone) {
			t.Errorf("found %v", err)
		}
	})
}

// A report without an answer, done or not or later, is written once, and never over a newer one.
func TestReportsUnknown(t *testing.T) {
	b := inMemory()
	reader := newClient(t, b(), "g", Options{By: "ann@h1"})
	id, p := submit(t, reader, "k"), PieceID{}
	for seed := range 60 {
		k := &killable{Backend: b(), at: -1, what: unknownNotDone + outcome(seed%3), rng: newRand(seed)}
		c := newClient(t, k, "g", Options{})
		k.at = k.n + seed%2
		for n := range 3 {
			err := c.PutReport(t.Context(), "h1", id, p,
				Report{Attempt: seed + 1, State: Running, Number: uint64(n + 1)})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 10 {
			_ = k.step()
		}
		r, err := reader.Report(t.Context(), "h1", id, p)
		if err != nil || r.Report.Attempt != seed+1 || r.Report.Number != 3 {
			t.Fatalf("seed %d: found %+v, %v", seed, r, err)
		}
	}
}

// What has ended is removed with all that is below it; what hasn't, or is tried again, isn't.
func TestRemoveExperiment(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c := newClient(t, b(), "g", Options{By: "ann@h1"})
		id, other, ctx := submit(t, c, "k"), submit(t, c, "other"), t.Context()
		if err := c.RemoveExperiment(ctx, id); err == nil || !strings.Contains(err.Error(), "hasn't ended") {
			t.Errorf("found %v", err)
		}
		for i := range 120 {
			m := Move{ID: id, Piece: PieceID{0, 0, i}, To: Piece{State: Dispatched, Attempt: 1}}
			if _, err := c.MovePieces(ctx, []Move{m}); err != nil {
				t.Fatal(err)
			}
		}
		kept := &Kept{Hash: "x"}
		err := errors.Join(c.PutReport(ctx, "h1", id, PieceID{}, Report{Attempt: 1, State: Finished, Kept: kept}),
			c.PutReport(ctx, "h1", other, PieceID{}, Report{Attempt: 1, State: Finished, Kept: kept}),
			c.PutLog(ctx, id, AttemptID{Attempt: 1}, []byte("a\xff"+strings.Repeat("x", MaxLog-1))))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := c.Log(ctx, id, AttemptID{Attempt: 1}); err != nil || !strings.HasPrefix(text, "\uFFFDxx") {
			t.Errorf("found %.10q, %v", text, err)
		}
		standing(t, c, id, Standing{Status: StatusFailed, Ended: true, Failed: 1})
		if _, err := c.Retry(ctx, id, ""); err != nil {
			t.Fatal(err)
		}
		if err := c.RemoveExperiment(ctx, id); err == nil || !strings.Contains(err.Error(), "hasn't ended") {
			t.Errorf("found %v of one that is tried again", err)
		}
		standing(t, c, id, Standing{Status: StatusFailed, Ended: true, Failed: 1, Retry: 1})
		for range 2 { // the second time there is nothing
			if err := c.RemoveExperiment(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		values, err := c.store.Walk(ctx, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if strings.Contains(v.Key(), id) {
				t.Errorf("found %s", v.Key())
			}
		}
		e := one(t, c)
		if r, err := c.Report(ctx, "h1", other, PieceID{}); err != nil || r == nil || e.ID != other {
			t.Errorf("found %v, %v of %s", r, err, e.ID)
		}
		if again := submit(t, c, "k"); again == id {
			t.Error("its idempotency key is there still")
		}
	})
}

// standing writes how far an experiment is, as the leader does.
func standing(t *testing.T, c *Client, id string, s Standing) {
	t.Helper()
	e, err := c.Show(t.Context(), id)
	if err == nil {
		err = c.SetStanding(t.Context(), id, e.StandingAt, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetStanding(t.Context(), id, e.StandingAt, s); !conflicts(err, statusKey(id)) {
		t.Errorf("found %v of a standing that has changed", err)
	}
}

// What can't be read is named, and hides nothing else.
func TestMalformed(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{By: "ann@h1"})
	good, ctx := submit(t, c, "k"), t.Context()
	bad := submit(t, c, "b")
	put := func(key string, value any) {
		t.Helper()
		if err := c.store.Put(ctx, key, value); err != nil {
			t.Fatal(err)
		}
	}
	put(wishKey(bad), map[string]any{"number": 1, "want": "dance", "priority": "high"})
	put(statusKey(bad), "nonsense")
	put(specKey("copied"), map[string]any{"id": good})
	put(statusKey("lost"), Standing{Status: StatusActive})
	put(pieceKey(good, PieceID{0, 0, 1}), Piece{State: Running, Attempt: 1})
	put(pieceKey(good, PieceID{0, 0, 2}), map[string]any{"state": "DANCING"})
	put(piecesKey(good)+"/x", Piece{State: Running, Attempt: 1})
	put(reportKey("h1", good, PieceID{}), Report{Attempt: 1, State: Held})
	put(keyAudit+"/x", 7)
	all, err := c.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range all {
		found[e.ID] = fmt.Sprint(e.Malformed)
	}
	for id, want := range map[string][]string{good: {"[]"}, bad: {wishKey(bad), `"dance"`, statusKey(bad)},
		"copied": {specKey("copied"), wishKey("copied"), "is missing"}, "lost": {specKey("lost"), "is missing"}} {
		for _, w := range want {
			if !strings.Contains(found[id], w) {
				t.Errorf("%s: found %s, want %q", id, found[id], w)
			}
		}
	}
	if _, err := c.Pause(ctx, bad, ""); err == nil || !strings.Contains(err.Error(), wishKey(bad)) {
		t.Errorf("found %v", err)
	}
	pieces, malformed, err := c.Pieces(ctx, good)
	if err != nil || len(pieces) != 1 || len(malformed) != 2 {
		t.Errorf("found %v, %v, %v", pieces, malformed, err)
	}
	reports, malformed, err := c.Reports(ctx)
	if err != nil || len(reports) != 0 || len(malformed) != 1 ||
		!strings.Contains(malformed[0].Error(), "error: want it") {
		t.Errorf("found %v, %v, %v", reports, malformed, err)
	}
	if unused, err := c.UnusedBlobs(ctx); err != nil || len(unused) > 0 {
		t.Errorf("found %v, %v where a specification can't be read", unused, err)
	}
	if _, malformed, err := c.Audit(ctx); err != nil || len(malformed) != 1 {
		t.Errorf("found %v, %v", malformed, err)
	}
}

// A blob that somebody has changed is refused.
func TestBlobIsVerified(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{})
	d, err := c.PutBlob(t.Context(), []byte("good"))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"evil", "longer"} {
		raw, err := metastore.EncodeAs(metastore.CBOR, []byte(data))
		if err == nil {
			err = c.store.Commit(t.Context(), nil, []metastore.Op{{Path: blobPartKey(d.SHA256, 0), Do: metastore.Set,
				Value: raw}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Blob(t.Context(), d); err == nil || !strings.Contains(err.Error(), "found") {
			t.Errorf("found %v", err)
		}
	}
	if _, err := c.Blob(t.Context(), digestOf([]byte("other"))); !errors.Is(err, metastore.ErrNoNode) {
		t.Errorf("found %v", err)
	}
	_, err = c.Blob(t.Context(), Digest{d.SHA256, 1 << 40})
	if err == nil || !strings.Contains(err.Error(), "want 0 to") {
		t.Errorf("found %v", err)
	}
}

// Ids sort by time, and are what idExample shows.
func TestIDs(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 52, 13, 0, time.UTC)
	c := &Client{}
	a, b := c.newID(at), c.newID(at.Add(time.Second))
	if a >= b || a == c.newID(at) || len(a) != len(idExample) || !strings.HasPrefix(a, "261128-125213-") {
		t.Errorf("found %s and %s", a, b)
	}
}
