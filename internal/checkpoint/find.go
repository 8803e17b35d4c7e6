// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	findTries      = 10 // where a checkpoint is committed and another one pruned while names or bytes are read
	digitsLeast    = 8  // of a check, by which a checkpoint is named
	labelCharsMax  = 64
	labelAllowed   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	labelOfNewest  = "latest"
	labelIsANumber = "0123456789."
)

// Points lists the checkpoints by replication and epoch, finished replications first. One that is made or deleted
// meanwhile may be missing.
func (r *Repo) Points(ctx context.Context) (points []Point, err error) {
	for _, folder := range []string{doneFolder, pointFolder} {
		blobs, err := r.blobs.List(ctx, folder)
		if err != nil {
			return nil, err
		}
		for _, b := range blobs {
			if p, ok := parsePoint(b.Name); ok {
				points = append(points, p)
			}
		}
	}
	return points, nil
}

// PointsAt lists the checkpoints of all replications that Find finds by the same words; where at is empty, all that
// there are, with the ends of replications. *FoundError where there is none.
func (r *Repo) PointsAt(ctx context.Context, at string) (found []Point, err error) {
	all, err := r.Points(ctx)
	if err != nil || at == "" {
		return all, err
	}
	none := error(&FoundError{Where: r.String(), At: at})
	all = slices.DeleteFunc(all, func(p Point) bool { return p.Finished })
	for len(all) > 0 {
		n := all[0].Replication
		end := slices.IndexFunc(all, func(p Point) bool { return p.Replication != n })
		if end < 0 {
			end = len(all)
		}
		p, err := r.find(ctx, at, n, all[:end])
		var missing *FoundError
		switch {
		case err == nil:
			found = append(found, p)
		case !errors.As(err, &missing):
			return nil, err
		case len(found) == 0:
			none = err
		}
		all = all[end:]
	}
	if len(found) == 0 {
		return nil, none
	}
	return found, nil
}

// Load reads the manifest of a checkpoint. *MissingError where there is none.
func (r *Repo) Load(ctx context.Context, p Point) (*Manifest, error) { return r.load(ctx, p) }

// FoundError says that a checkpoint that was asked for isn't there.
type FoundError struct {
	Where       string
	At          string
	Replication int
	Points      []Point // of this replication, by epoch
}

// Error says which there are.
func (e *FoundError) Error() string {
	const shown = 5
	if len(e.Points) == 0 {
		return fmt.Sprintf("%s: found no checkpoint of replication %d", e.Where, e.Replication)
	}
	var epochs []string
	for i := len(e.Points) - 1; i >= 0 && len(epochs) < shown; i-- {
		epochs = append(epochs, strconv.FormatFloat(e.Points[i].Epoch, 'g', -1, 64))
	}
	more := ""
	if len(e.Points) > shown {
		more = ", …"
	}
	return fmt.Sprintf("%s: found no checkpoint %q of replication %d, want %s, a label, or an epoch: %s%s", e.Where,
		e.At, e.Replication, labelOfNewest, strings.Join(epochs, ", "), more)
}

// Find reads a checkpoint of a replication: latest, one with a label, of an epoch, or by at least 8 digits with which
// its check begins, in this order. Where it is damaged the error names the one before it.
func (r *Repo) Find(ctx context.Context, at string, replication int) (*Manifest, error) {
	for try := 0; ; try++ {
		points, err := r.pointsOf(ctx, replication)
		if err != nil {
			return nil, err
		}
		if len(points) == 0 && try < findTries {
			// A list that is read while one is made and the one before is deleted may have neither.
			continue
		}
		p, err := r.find(ctx, at, replication, points)
		if err != nil {
			return nil, err
		}
		m, err := r.load(ctx, p)
		if missing(err) && try < findTries {
			continue // pruned meanwhile
		}
		if damaged(err) {
			for i, q := range points {
				if q == p && i > 0 {
					err = fmt.Errorf("%w; the checkpoint before it is at epoch %v", err, points[i-1].Epoch)
				}
			}
		}
		return m, err
	}
}

// pointsOf lists the checkpoints of a replication by epoch, without its end.
func (r *Repo) pointsOf(ctx context.Context, replication int) (points []Point, err error) {
	all, err := r.Points(ctx)
	for _, p := range all {
		if p.Replication == replication && !p.Finished {
			points = append(points, p)
		}
	}
	return points, err
}

// find says which checkpoint is meant.
func (r *Repo) find(ctx context.Context, at string, replication int, points []Point) (Point, error) {
	none := &FoundError{r.String(), at, replication, points}
	if len(points) == 0 {
		return Point{}, none
	}
	if at == labelOfNewest {
		return points[len(points)-1], nil
	}
	epoch, err := strconv.ParseFloat(at, 64)
	isEpoch := err == nil
	if CheckLabel(at) == nil {
		labelled, err := r.label(ctx, at)
		if err == nil {
			epoch, isEpoch = labelled, true
		} else if !missing(err) {
			return Point{}, err
		}
	}
	if isEpoch {
		for _, p := range points {
			if p.Epoch == epoch {
				return p, nil
			}
		}
	}
	if len(at) < digitsLeast || strings.Trim(at, "0123456789abcdef") != "" {
		return Point{}, none
	}
	found := []Point{}
	for _, p := range points {
		m, err := r.load(ctx, p)
		if err != nil && !damaged(err) && !missing(err) {
			return Point{}, err
		}
		if err == nil && strings.HasPrefix(m.Check.String(), at) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return Point{}, none
	case 1:
		return found[0], nil
	}
	return Point{}, fmt.Errorf("%s: found %d checkpoints whose check begins with %s: give more digits", r.String(),
		len(found), at)
}

// labelFile is the file of a label.
type labelFile struct {
	Format int     `json:"format"`
	Epoch  float64 `json:"epoch_s"`
	Bits   string  `json:"epoch"`
	Check  Digest  `json:"check,omitzero"`
}

// LabelError is a label that can't be given: it names another epoch, or isn't one.
type LabelError struct{ text string }

// Error says what is wrong with it, and what to do.
func (e *LabelError) Error() string { return e.text }

// CheckLabel refuses what can't be a label, with a *LabelError.
func CheckLabel(label string) error {
	if len(label) == 0 || len(label) > labelCharsMax || strings.Trim(label, labelAllowed) != "" ||
		strings.Trim(label, labelIsANumber) == "" || label[0] == '.' || label == labelOfNewest {
		return &LabelError{fmt.Sprintf("label %.80q: want 1 to %d of a-z A-Z 0-9 . _ -, not only digits and dots, no "+
			"dot in front, and not %q", label, labelCharsMax, labelOfNewest)}
	}
	return nil
}

func labelName(label string) string { return labelFolder + label + ".json" }

// label reads the epoch of a label.
func (r *Repo) label(ctx context.Context, label string) (float64, error) {
	var file labelFile
	if err := readJSON(ctx, r.blobs, labelName(label), labelBytesMax, &file); err != nil {
		return 0, err
	}
	if !(file.Epoch > 0) || file.Epoch >= r.run.Horizon || file.Bits != bitsText(file.Epoch) {
		return 0, &DamagedError{Where: r.String(), Name: labelName(label),
			Err: fmt.Errorf("found epoch %v (%.20q), want one above 0 and below the horizon, %v, twice", file.Epoch,
				file.Bits, r.run.Horizon)}
	}
	return file.Epoch, nil
}

// Labels gives the epoch of each label. Those that are damaged are left out, and are the error.
func (r *Repo) Labels(ctx context.Context) (map[string]float64, error) {
	blobs, err := r.blobs.List(ctx, labelFolder)
	if err != nil {
		return nil, err
	}
	labels := map[string]float64{}
	var broken []error
	for _, b := range blobs {
		label := strings.TrimSuffix(strings.TrimPrefix(b.Name, labelFolder), ".json")
		if CheckLabel(label) != nil || b.Name != labelName(label) {
			continue
		}
		epoch, err := r.label(ctx, label)
		switch {
		case err == nil:
			labels[label] = epoch
		case !missing(err):
			broken = append(broken, err)
		}
	}
	return labels, errors.Join(broken...)
}

// LooseLabels gives the labels of whose epochs there is no checkpoint. One that is given or removed meanwhile isn't
// among them, nor is one that is damaged.
func (r *Repo) LooseLabels(ctx context.Context) (map[string]float64, error) {
	labels := map[string]float64{}
	for try := range 2 { // labels and checkpoints aren't listed at one moment
		now, err := r.Labels(ctx)
		if err != nil && !damaged(err) {
			return nil, err
		}
		points, err := r.Points(ctx)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(now, func(label string, epoch float64) bool {
			was, ok := labels[label]
			return try > 0 && (!ok || was != epoch) ||
				slices.ContainsFunc(points, func(p Point) bool { return !p.Finished && p.Epoch == epoch })
		})
		if labels = now; len(labels) == 0 {
			break
		}
	}
	return labels, nil
}

// Label names an epoch: the checkpoints of all replications there stay until the label is gone. A label that names
// another epoch is refused with a *LabelError; the same one again changes nothing; a damaged one is written anew.
func (r *Repo) Label(ctx context.Context, m *Manifest, label string) error {
	r.mustWrite()
	if err := CheckLabel(label); err != nil {
		return err
	}
	if m.Finished {
		return &LabelError{fmt.Sprintf("%s: %v can't have a label, want a checkpoint", r.String(), m.Point())}
	}
	epoch, err := r.label(ctx, label)
	switch {
	case err == nil && epoch == m.Epoch:
		return nil
	case err == nil:
		return &LabelError{fmt.Sprintf("%s: label %q is that of epoch %v: remove it, or take another name", r.String(),
			label, epoch)}
	case !missing(err) && !damaged(err):
		return err
	}
	text, _, err := encodeJSON(&labelFile{Format: formatVersion, Epoch: m.Epoch, Bits: bitsText(m.Epoch)})
	if err != nil {
		return err
	}
	return putBytes(ctx, r.blobs, labelName(label), text, false)
}

// Unlabel removes a label; the checkpoints that had it are pruned as others are.
func (r *Repo) Unlabel(ctx context.Context, label string) error {
	r.mustWrite()
	if err := CheckLabel(label); err != nil {
		return err
	}
	return r.blobs.Delete(ctx, labelName(label))
}
