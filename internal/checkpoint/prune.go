// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const damagesMax = 10 // that Verify lists of a checkpoint

// Verify verifies all checkpoints, as VerifyPoints does.
func (r *Repo) Verify(ctx context.Context, yield func(p Point, m *Manifest, damage error) error) error {
	points, err := r.Points(ctx)
	if err != nil {
		return err
	}
	return r.VerifyPoints(ctx, points, yield)
}

// VerifyPoints reads all chunks of checkpoints and calls yield for each: with nil where all is as it was written, else
// with what is damaged, at most ten chunks of it, and packs of another size than it says, or can't be read by this
// version (OtherVersion). m is nil where the manifest itself is. It ends with yield's error, or that of a store that
// can't be read.
func (r *Repo) VerifyPoints(ctx context.Context, points []Point,
	yield func(p Point, m *Manifest, damage error) error) error {
	whole := map[Chunk]bool{}      // those that were read already
	packs, err := r.packSizes(ctx) // of all points: a pack is written before them
	if err != nil {
		return err
	}
	for _, p := range points {
		m, err := r.load(ctx, p)
		if missing(err) {
			continue // pruned meanwhile
		}
		var damage error
		if err == nil {
			var list []error
			list, err = r.verify(ctx, m, whole)
			damage = errors.Join(append(list, r.resized(m, packs, list)...)...)
		}
		var other *OtherRunError
		var pruned *PrunedError
		switch {
		case errors.As(err, &pruned):
			continue
		case damaged(err), errors.As(err, &other):
			damage = errors.Join(damage, err)
		case err != nil:
			return err
		}
		if err := yield(p, m, damage); err != nil {
			return err
		}
	}
	return nil
}

// Whole reads all of a checkpoint; nil where it is as it was written. What is damaged is a *DamagedError.
func (r *Repo) Whole(ctx context.Context, m *Manifest) error {
	damages, err := r.verify(ctx, m, map[Chunk]bool{})
	return errors.Join(append(damages, err)...)
}

// errEnough ends the list of what is damaged.
var errEnough = errors.New("checkpoint: enough is damaged")

// verify reads the chunks of a checkpoint.
func (r *Repo) verify(ctx context.Context, m *Manifest, whole map[Chunk]bool) (list []error, err error) {
	var buf []byte
	err = r.Chunks(ctx, m, func(c Chunk) error {
		if whole[c] {
			return nil
		}
		data, err := r.Read(ctx, m, c, buf)
		switch {
		case err == nil:
			buf, whole[c] = data, true
		case !damaged(err):
			return err
		case len(list) == damagesMax:
			return errEnough
		default:
			list = append(list, err)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		list, err = append(list, fmt.Errorf("and more of %v", m.Point())), nil
	}
	return list, err
}

// resized says which packs of a checkpoint have another size than it says, but for those of which something is known to
// be damaged, and those that are missed when they are read.
func (r *Repo) resized(m *Manifest, packs map[string]int64, damages []error) (list []error) {
	for _, pack := range m.Packs {
		size, there := packs[pack.name()]
		if !there || size == pack.Bytes || slices.ContainsFunc(damages, func(err error) bool {
			var d *DamagedError
			return errors.As(err, &d) && d.Name == pack.name()
		}) {
			continue
		}
		list = append(list, r.sizeError(pack, size))
	}
	return list
}

// sizeError is about a pack that has another size than it should.
func (r *Repo) sizeError(pack Pack, size int64) error {
	return &DamagedError{Where: r.String(), Name: pack.name(), Err: fmt.Errorf("found a pack of %d bytes, want %d: it "+
		"was changed after it was written", size, pack.Bytes)}
}

// Pruned is what was deleted, and why something wasn't.
type Pruned struct {
	Checkpoints, Packs int
	Bytes              int64 // of the packs
	Broken             []Broken
}

// Broken is a checkpoint that stays, and isn't counted as one of those that are to stay: why.
type Broken struct {
	Point Point
	Err   error
}

// Prune deletes all checkpoints but the keep newest whole ones of each replication, those with a label, the ends of
// replications, what another run has made (Copy), and stay; then the packs that no checkpoint refers to any more. One
// of which a pack is missing, or of another size, isn't whole. A damaged manifest goes when enough newer whole ones are
// there. Until then no pack is deleted, because it may refer to any: the error says so.
func (r *Repo) Prune(ctx context.Context, keep int, stay ...Point) (Pruned, error) {
	r.mustWrite()
	var done Pruned
	if keep < 1 {
		return done, fmt.Errorf("checkpoint: %d checkpoints are to stay, want at least 1", keep)
	}
	labels, err := r.Labels(ctx)
	if err != nil {
		return done, err // else what a damaged label holds would go
	}
	packs, err := r.packSizes(ctx)
	if err != nil {
		return done, err
	}
	old, notWhole, broken, err := r.markUsed(ctx, keep, stay, labels, packs)
	done.Broken = notWhole
	if err != nil {
		return done, err
	}
	if err := r.blobs.Delete(ctx, old...); err != nil {
		return done, err
	}
	done.Checkpoints = len(old)
	if broken != nil {
		return done, fmt.Errorf("no pack was deleted, because this file may refer to any: remove it, or restore it: %w",
			broken)
	}
	old = nil
	bytes := int64(0)
	for name, size := range packs {
		old = append(old, name)
		bytes += size
	}
	if err := r.blobs.Delete(ctx, old...); err != nil {
		return done, err
	}
	done.Packs, done.Bytes = len(old), bytes
	return done, nil
}

// markUsed gives the manifests that don't stay, and takes the packs of those that do out of packs. notWhole are those
// that stay of which a pack isn't as it was; broken says which manifests that stay are damaged.
func (r *Repo) markUsed(ctx context.Context, keep int, stay []Point, labels map[string]float64,
	packs map[string]int64) (old []string, notWhole []Broken, broken, err error) {
	held := map[float64]bool{}
	for _, epoch := range labels {
		held[epoch] = true
	}
	if from := r.run.From; from != nil {
		held[from.Epoch] = true // replications that haven't begun yet begin with it
	}
	points, err := r.Points(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	slices.Reverse(points) // newest first
	var damages []error
	used := map[string]bool{}
	whole := map[int]int{} // by replication: how many newest ones stay
	for _, p := range points {
		if !p.Finished && whole[p.Replication] >= keep && !held[p.Epoch] && !slices.Contains(stay, p) {
			old = append(old, p.name())
			continue
		}
		m, err := r.load(ctx, p)
		if damaged(err) {
			damages = append(damages, err)
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		for _, pack := range m.Packs {
			used[pack.name()] = true
		}
		if err := r.notThere(m, packs); err != nil {
			notWhole = append(notWhole, Broken{p, err})
		} else if !p.Finished {
			whole[p.Replication]++
		}
	}
	for name := range used {
		delete(packs, name)
	}
	return old, notWhole, errors.Join(damages...), nil
}

// notThere says what is wrong with the first pack of a checkpoint that is missing, or of another size.
func (r *Repo) notThere(m *Manifest, packs map[string]int64) error {
	for _, pack := range m.Packs {
		switch size, ok := packs[pack.name()]; {
		case !ok:
			return &DamagedError{Where: r.String(), Name: pack.name(),
				Err: errors.New("found no such file, want a pack")}
		case size != pack.Bytes:
			return r.sizeError(pack, size)
		}
	}
	return nil
}

// packSizes gives the size of each pack by its name.
func (r *Repo) packSizes(ctx context.Context) (map[string]int64, error) {
	blobs, err := r.blobs.List(ctx, packFolder)
	sizes := map[string]int64{}
	for _, b := range blobs {
		sizes[b.Name] = b.Size
	}
	return sizes, err
}
