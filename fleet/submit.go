// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Submission is what somebody wants to have simulated.
type Submission struct {
	Key      string // idempotency key: one key, one experiment, however often it is submitted
	Name     string
	User     string // where the store knows who submits, that user does
	Version  string // of the agents that are to have it simulated: a program with models is known by its digest
	Place    string // as in Spec
	Labels   map[string]string
	Limits   Limits
	Priority Priority
	Steps    []SubmittedStep
	FailFast bool // as in Spec
}

// SubmittedStep is a step with its files. Text and Attachments of the Step are filled in by Submit.
type SubmittedStep struct {
	Step
	Scenario []byte
	Attached []File
}

// File is a file that a scenario names.
type File struct {
	Name string
	Data []byte
}

// submitted is what the key of an idempotency key holds.
type submitted struct {
	ID     string    `json:"id"`
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
}

func (s *submitted) check() error { return errors.Join(checkID(s.ID), hash("digest", s.Digest)) }

// KeyTakenError is about an idempotency key that was given for another submission.
type KeyTakenError struct{ Key, ID, Digest, Other string }

// Error names both submissions.
func (e *KeyTakenError) Error() string {
	return fmt.Sprintf("the idempotency key %.80q is that of the experiment %s, which was submitted with the digest "+
		"%s; this submission has %s: want the same one, or another key", e.Key, e.ID, e.Other, e.Digest)
}

// FullError is about a group that has all experiments that it may have.
type FullError struct{ There, Most int }

// Error says what to do.
func (e *FullError) Error() string {
	return fmt.Sprintf("the group has %d experiments, at most %d: try again when some that have ended were removed "+
		"(agent --keep), or take another group", e.There, e.Most)
}

// blobsMost is how many different files an experiment may have: its commit names each twice.
const blobsMost = (metastore.MaxOps - 10) / 2

// specBytesMost is what a specification may have in the store, with room for the rest of its commit.
const specBytesMost = metastore.MaxValue - 100_000

// Submit submits: when it returns an id, that experiment is there, and no kill, cut or retry makes a second one of the
// same key. duplicate says that it was there already, submitted with the same key and the same digest; with another
// digest it is a *KeyTakenError. All that is wrong with a submission is one error. *FullError. *BusyError: nothing of
// it is there, and it is worth another try later. Otherwise an error says
// that the store couldn't be reached until ctx ended: the experiment may be there, and submitting again, with the same
// key, is right.
func (c *Client) Submit(ctx context.Context, s *Submission) (id string, duplicate bool, err error) {
	if c.user != "" && s.User != c.user {
		named := *s
		s, named.User = &named, c.user
	}
	spec, blobs, err := s.spec()
	if err != nil {
		return "", false, err
	}
	if id, err := c.lookUp(ctx, s.Key, spec); err != nil || id != "" {
		return id, err == nil, err
	}
	if err := c.makeFormat(ctx); err != nil {
		return "", false, err
	}
	there, err := c.names(ctx, keyExperiments)
	if err != nil {
		return "", false, err
	}
	if len(there) >= c.o.Experiments { // several at once may pass by as many
		return "", false, &FullError{len(there), c.o.Experiments}
	}
	load, err := c.load(ctx)
	if err == nil {
		err = load.admit(s.Priority)
	}
	if err == nil { // before files are sent: they count with the commit
		_, _, err = c.charge(ctx, s.User, "-", c.o.Now(), load.Admission)
	}
	if err != nil {
		return "", false, err
	}
	for range blobTries {
		for _, data := range blobs {
			if _, err := c.PutBlob(ctx, data); err != nil {
				return "", false, err
			}
		}
		id, duplicate, again, err := c.commitSpec(ctx, s, spec, load.Admission)
		if !again {
			return id, duplicate, err
		}
	}
	return "", false, fmt.Errorf("files of the submission were removed %d times: submit it again", blobTries)
}

// CheckKey refuses a text that can't be an idempotency key.
func CheckKey(key string) error { return filled("idempotency-key", key, maxName) }

// Check says all that is wrong with a submission, but for its key, without a store, and returns its digest: that of
// everything that was submitted but the key.
func (s *Submission) Check() (digest string, err error) {
	keyed := *s
	keyed.Key = "-"
	spec, _, err := keyed.spec()
	if err != nil {
		return "", err
	}
	return spec.Digest, nil
}

// spec checks a submission, and makes what is kept of it, and the blobs.
func (s *Submission) spec() (spec *Spec, blobs map[Digest][]byte, err error) {
	named := make([]string, len(s.Steps))
	spec = &Spec{Name: s.Name, User: s.User, Version: s.Version, Place: s.Place, Labels: s.Labels, Limits: s.Limits,
		FailFast: s.FailFast}
	blobs = map[Digest][]byte{}
	blob := func(data []byte) Digest {
		d := digestOf(data)
		blobs[d] = data
		return d
	}
	for i, step := range s.Steps {
		is := step.Step
		named[i], is.File = is.File, is.FileName() // from wherever it is submitted it is the same
		is.Text, is.Attachments = blob(step.Scenario), nil
		for _, f := range step.Attached {
			is.Attachments = append(is.Attachments, Attachment{Name: f.Name, Digest: blob(f.Data)})
		}
		spec.Steps = append(spec.Steps, is)
	}
	text, err := json.Marshal(struct {
		Spec     *Spec
		Priority Priority
	}{spec, s.Priority})
	if err != nil {
		return nil, nil, err
	}
	spec.Digest, spec.Key = sha(text), sha([]byte(s.Key))
	for i := range named {
		spec.Steps[i].File = named[i]
	}
	errs := []error{CheckKey(s.Key), s.Priority.check(), spec.check(),
		number("different files", len(blobs), 0, blobsMost)}
	if len(text) > specBytesMost {
		errs = append(errs, fmt.Errorf("steps, points and settings: found %d bytes in JSON, want at most %d: sweep "+
			"fewer values at a time, or submit several experiments", len(text), specBytesMost))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("the submission: %w", err)
	}
	return spec, blobs, nil
}

// sha is SHA-256 in hexadecimal digits.
func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// lookUp is the experiment of an idempotency key, or "".
func (c *Client) lookUp(ctx context.Context, key string, spec *Spec) (id string, err error) {
	var was submitted
	version, err := c.get(ctx, submittedKey(c.user, spec.Key), &was)
	if err != nil || version == (metastore.Version{}) {
		return "", err
	}
	if err := was.check(); err != nil {
		return "", &MalformedError{submittedKey(c.user, spec.Key), err}
	}
	if was.Digest != spec.Digest {
		return "", &KeyTakenError{key, was.ID, spec.Digest, was.Digest}
	}
	return was.ID, nil
}

// commitSpec makes the experiment; again says that a file isn't there any more. A commit of which the outcome isn't
// known is made again: of several one is done, since each creates the idempotency key.
func (c *Client) commitSpec(ctx context.Context, s *Submission, spec *Spec, bounds Admission) (id string, duplicate,
	again bool, err error) {
	mine := map[string]bool{} // ids under which it was tried
	for {
		now := c.o.Now()
		spec.ID, spec.Submitted = c.newID(now), now
		mine[spec.ID] = true
		conds, ops, err := c.submission(spec, Wish{Number: 1, Want: WantRun, Priority: s.Priority, By: s.User,
			At: now}, now)
		if err != nil {
			return "", false, false, err
		}
		cond, op, err := c.charge(ctx, s.User, spec.ID, now, bounds)
		if err != nil {
			return "", false, false, err
		}
		conds, ops = append(conds, cond), append(ops, op)
		err = c.store.Commit(ctx, conds, ops)
		conflict := (*metastore.ConflictError)(nil)
		switch {
		case err == nil:
			c.trimAudit(ctx)
			return spec.ID, false, false, nil
		case errors.As(err, &conflict) && conflict.Cond.Is == metastore.Exists:
			return "", false, true, nil
		case errors.As(err, &conflict), errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil:
		default:
			return "", false, false, err
		}
		there, err := c.lookUp(ctx, s.Key, spec)
		if err != nil || there != "" {
			return there, err == nil && !mine[there], false, err
		}
	}
}

// submission is the commit of an experiment.
func (c *Client) submission(spec *Spec, wish Wish, now time.Time) ([]metastore.Cond, []metastore.Op, error) {
	var conds []metastore.Cond
	var ops []metastore.Op
	var errs []error
	add := func(op metastore.Op, err error) { ops, errs = append(ops, op), append(errs, err) }
	add(c.op(metastore.Create, submittedKey(c.user, spec.Key), submitted{spec.ID, spec.Digest, now}))
	add(c.op(metastore.Create, specKey(spec.ID), spec))
	add(c.op(metastore.Create, wishKey(spec.ID), wish))
	for _, d := range spec.blobs() {
		key := blobKey(d.SHA256)
		conds = append(conds, metastore.Cond{Path: key, Is: metastore.Exists})
		add(c.op(metastore.Set, key, d)) // a removal that has begun before fails
	}
	add(c.noted(now, "submit", spec.ID, ""))
	add(c.wake(spec.ID))
	return conds, ops, errors.Join(errs...)
}
