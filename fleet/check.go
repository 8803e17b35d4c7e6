// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/metastore"
)

// Further bounds of what is read: people and programs of other versions write it, too.
const (
	maxName    = 200 // bytes of a name, a label, a user
	maxLabels  = 50
	maxArgs    = 1000
	maxErrors  = 20
	maxGang    = 1024
	maxFaults  = 10_000
	maxReplies = MaxPieces // replications of a step
)

// text refuses a text that is too long or isn't one.
func text(what, s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("%s: found %d bytes, want at most %d", what, len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s: found bytes that are no UTF-8", what)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("%s: found a control character, want text without them", what)
	}
	return nil
}

// line is text that people are shown in one line with others.
func line(what, s string, most int) error {
	if strings.ContainsAny(s, "\n\t") {
		return fmt.Errorf("%s: found a tab or the end of a line, want text of one line", what)
	}
	return text(what, s, most)
}

// about says what an error is about; it is nil where there is none.
func about(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// filled is a line that may not be empty.
func filled(what, s string, most int) error {
	if s == "" {
		return fmt.Errorf("%s: found nothing", what)
	}
	return line(what, s, most)
}

// number refuses what is out of range.
func number(what string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: found %d, want %d to %d", what, n, least, most)
	}
	return nil
}

// validText is the end of a text, as UTF-8.
func validText(b []byte, most int) string {
	b = b[max(0, len(b)-most):]
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// checkName refuses what isn't one name of a key.
func checkName(name string) error {
	if strings.Contains(name, "/") || name == "" {
		return fmt.Errorf("found %.80q, want one name of a key, without a slash", name)
	}
	_, err := metastore.Path("", name)
	return err
}

// checkID refuses what can't be an experiment's id.
func checkID(id string) error {
	if err := checkName(id); err != nil || len(id) > maxName {
		return fmt.Errorf("found %.80q, want the id of an experiment, such as %s", id, idExample)
	}
	return nil
}

// hash refuses what is no SHA-256 in hexadecimal digits.
func hash(what, s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 32 || strings.ToLower(s) != s {
		return fmt.Errorf("%s: found %.80q, want 64 hexadecimal digits", what, s)
	}
	return nil
}

func (d *Digest) check() error {
	if err := hash("digest", d.SHA256); err != nil {
		return err
	}
	if d.Bytes < 0 || d.Bytes > MaxText {
		return fmt.Errorf("found %d bytes, want 0 to %d", d.Bytes, int64(MaxText))
	}
	return nil
}

func (s *Spec) check() error {
	errs := []error{filled("name", s.Name, maxName), filled("user", s.User, maxName),
		filled("version", s.Version, maxName), line("place", s.Place, metastore.MaxPath), s.Limits.check(),
		hash("key", s.Key), hash("digest", s.Digest), s.Home.check(),
		number("labels", len(s.Labels), 0, maxLabels), number("steps", len(s.Steps), 1, MaxSteps)}
	for k, v := range s.Labels {
		errs = append(errs, filled("a label's name", k, maxName), line("label "+k, v, maxName))
	}
	whole := len(s.Steps) > 0
	for i := range s.Steps {
		if err := s.Steps[i].check(); err != nil {
			errs, whole = append(errs, fmt.Errorf("step %d: %w", i, err)), false
		}
	}
	errs = append(errs, s.checkPipeline())
	if whole { // else how many pieces there are says nothing
		errs = append(errs, number("pieces (points × replications)", s.Count(), 1, MaxPieces))
	}
	return errors.Join(errs...)
}

// Count is how many pieces an experiment has.
func (s *Spec) Count() (pieces int) {
	for _, step := range s.Steps {
		pieces += step.Count()
	}
	return pieces
}

func (l *Limits) check() error {
	errs := []error{number("attempts", l.Attempts, 0, 1000)}
	for _, d := range []struct {
		name string
		is   int64
	}{{"start", int64(l.Start)}, {"no progress", int64(l.NoProgress)}, {"total", int64(l.Total)}} {
		if d.is < 0 {
			errs = append(errs, fmt.Errorf("%s: found a time below 0", d.name))
		}
	}
	return errors.Join(errs...)
}

func (s *Step) check() error {
	errs := []error{s.checkFigures(),
		text("name", s.Name, maxName), filled("file", s.File, metastore.MaxPath),
		about(fmt.Sprintf("the scenario %.200q", s.File), s.Text.check()),
		number("arguments", len(s.Args), 0, maxArgs), number("points", len(s.Points), 1, MaxPoints),
		number("replications", s.Replications, 1, maxReplies), number("workers", s.Workers, 1, maxGang)}
	var all int64
	seen := map[string]bool{}
	for _, a := range s.Attachments {
		errs = append(errs, filled("an attachment's name", a.Name, metastore.MaxPath),
			about(fmt.Sprintf("the attachment %.200q", a.Name), a.Digest.check()))
		if seen[a.Name] {
			errs = append(errs, fmt.Errorf("the attachment %.80q is there twice", a.Name))
		}
		seen[a.Name] = true
		all += a.Bytes
	}
	if all > MaxAttached {
		errs = append(errs, fmt.Errorf("attachments: found %d bytes together, want at most %d", all,
			int64(MaxAttached)))
	}
	for _, t := range slices.Concat(append(s.Points, s.Args, s.Sweep)...) {
		if err := text("a setting", t, metastore.MaxValue); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

func (w *Wish) check() error {
	errs := []error{text("by", w.By, maxName), text("why", w.Why, MaxReason), line("retry from", w.From, maxName)}
	if w.Number == 0 {
		errs = append(errs, errors.New("number: found 0, want 1 or more"))
	}
	if w.Want != WantRun && w.Want != WantPause && w.Want != WantCancel {
		errs = append(errs, fmt.Errorf("want: found %.40q, want %s, %s or %s", w.Want, WantRun, WantPause, WantCancel))
	}
	return errors.Join(append(errs, w.Priority.check())...)
}

func (p Priority) check() error {
	if p != High && p != Normal && p != Low {
		return fmt.Errorf("priority: found %.40q, want %s, %s or %s", p, High, Normal, Low)
	}
	return nil
}

func (s *Standing) check() error {
	errs := []error{text("reason", s.Reason, MaxReason), text("leader", s.Leader, maxName),
		number("errors", len(s.Errors), 0, maxErrors), number("servers left", len(s.Left), 0, leftMost),
		number("failed", s.Failed, 0, MaxPieces), s.checkSteps(), s.checkEnough()}
	if s.Status < StatusCreated || s.Status > StatusFailed {
		errs = append(errs, errors.New("status: found none"))
	}
	for state, n := range s.Pieces {
		errs = append(errs, number(state.String(), n, 0, MaxPieces))
	}
	for i := range s.Errors {
		errs = append(errs, s.Errors[i].Error.check())
	}
	return errors.Join(errs...)
}

func (e *Error) check() error {
	if e == nil {
		return nil
	}
	errs := []error{text("where", e.Where, maxName), filled("type", e.Type, maxName),
		text("message", e.Message, MaxReason), text("step", e.Step, maxName), text("decided", e.Decided, maxName)}
	if len(e.Trace) > MaxTrace {
		errs = append(errs, fmt.Errorf("trace: found %d bytes, want at most %d", len(e.Trace), MaxTrace))
	}
	return errors.Join(errs...)
}

func (k *Kept) check() error {
	if k == nil {
		return nil
	}
	errs := []error{text("place", k.Place, metastore.MaxPath), filled("hash", k.Hash, maxName), k.checkFigures()}
	if !(k.Wall >= 0) || math.IsInf(k.Wall, 0) {
		errs = append(errs, fmt.Errorf("wall seconds: found %v, want 0 or more", k.Wall))
	}
	return errors.Join(errs...)
}

func (p *Piece) check() error {
	errs := []error{text("site", p.Site, maxName), number("attempt", p.Attempt, 0, math.MaxInt32),
		number("gang", len(p.Gang), 0, maxGang),
		number("machines at fault", len(p.Fault), 0, maxFaults), p.Error.check(), p.Kept.check(), p.Inputs.check(),
		p.Outputs.check(p.State), p.Texts.check(p.State), number("replications that count", p.Counts, 0, MaxPieces)}
	if p.State < Waiting || p.State > Canceled {
		errs = append(errs, errors.New("state: found none"))
	}
	for _, s := range p.Gang {
		errs = append(errs, filled("server", s.Name, maxName), filled("member", s.Member, maxName),
			text("incarnation", s.Incarnation, maxName), line("address", s.Address, maxName))
	}
	errs = append(errs, number("ends of attempts", len(p.Past), 0, pastMost), number("servers left", len(p.Left), 0,
		maxGang), p.Extended.check())
	for _, past := range p.Past {
		errs = append(errs, text("where", past.Where, maxName), filled("type", past.Type, maxName),
			text("message", past.Message, pastMessage), text("decided", past.Decided, maxName))
	}
	for _, l := range p.Left {
		errs = append(errs, filled("server", l.Server, maxName), filled("member", l.Member, maxName),
			text("state", l.Is, maxName))
	}
	if p.Age < 0 {
		errs = append(errs, fmt.Errorf("age: found %v, want 0s or more", p.Age))
	}
	if p.Wait < 0 {
		errs = append(errs, fmt.Errorf("wait: found %v, want 0s or more", p.Wait))
	}
	if (p.State == Finished) != (p.Kept != nil) {
		errs = append(errs, fmt.Errorf("kept: want it of a piece that is %v, and of no other", Finished))
	}
	return errors.Join(errs...)
}

func (x *Extended) check() error {
	if x == nil {
		return nil
	}
	if math.IsNaN(x.Now) || math.IsInf(x.Now, 0) {
		return fmt.Errorf("extended: found the time %v, want a finite number", x.Now)
	}
	return errors.Join(number("extensions", x.Count, 0, extensionsMax), text("by", x.By, maxName))
}

func (r *Report) check() error {
	errs := []error{number("attempt", r.Attempt, 1, math.MaxInt32), r.Error.check(), r.Kept.check(),
		r.Outputs.check(r.State), r.Texts.check(r.State)}
	switch r.State {
	case Running, Paused, Finished, Failed, Held, Canceled:
	default:
		errs = append(errs, fmt.Errorf("state: found %v, want one that an agent may report", r.State))
	}
	if (r.State == Finished) != (r.Kept != nil) {
		errs = append(errs, fmt.Errorf("kept: want it of a piece that is %v, and of no other", Finished))
	}
	if r.Error == nil && (r.State == Failed || r.State == Held) {
		errs = append(errs, fmt.Errorf("error: want it of a piece that is %v or %v", Failed, Held))
	}
	if r.Progress.Ran < 0 || r.Progress.Still < 0 {
		errs = append(errs, fmt.Errorf("progress: found the times %v and %v, want 0s or more", r.Progress.Ran,
			r.Progress.Still))
	}
	for _, x := range []float64{r.Progress.Now, r.Progress.Horizon} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("progress: found %v, want a finite number", x))
		}
	}
	return errors.Join(errs...)
}
