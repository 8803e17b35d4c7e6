// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// removeBatch is how many keys a commit removes.
const removeBatch = 90

// RemoveExperiment removes an experiment, with its pieces, logs, reports and idempotency key, for good. The leader does
// that with one that has ended, and not within 300 s of its end, for as long as a retry of its submission may come. It
// takes several commits, the last of which takes the specification: who ends in between leaves an experiment that can
// be removed again. guards are the leader's. One that isn't there is no error.
func (c *Client) RemoveExperiment(ctx context.Context, id string, guards ...metastore.Cond) error {
	e, err := c.Show(ctx, id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if !e.Ended() {
		return fmt.Errorf("%s hasn't ended: it can't be removed", id)
	}
	members, err := c.names(ctx, keyReports)
	if err != nil {
		return err
	}
	trees := []string{piecesKey(id), keyLogs + "/" + id}
	for _, member := range members {
		trees = append(trees, keyReports+"/"+member+"/"+id)
	}
	for _, tree := range trees {
		if err := c.removeBelow(ctx, tree, guards); err != nil {
			return err
		}
	}
	ops := []metastore.Op{{Path: specKey(id), Do: metastore.Delete}, {Path: wishKey(id), Do: metastore.Delete},
		{Path: statusKey(id), Do: metastore.Delete}, {Path: routeKey(id), Do: metastore.Delete}}
	if e.Spec != nil {
		ops = append(ops, metastore.Op{Path: submittedKey(Owner(id), e.Spec.Key), Do: metastore.Delete})
	}
	conds := append(slices.Clone(guards), at(statusKey(id), e.StandingAt), at(wishKey(id), e.WishAt))
	return c.store.Commit(ctx, conds, ops)
}

// names are those right below a key; none where there is no such key.
func (c *Client) names(ctx context.Context, key string) ([]string, error) {
	names, err := c.store.Members(ctx, key)
	if errors.Is(err, metastore.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// removeBelow removes the values right below a key, some at a time: a tree may have more than fit into one commit.
func (c *Client) removeBelow(ctx context.Context, key string, guards []metastore.Cond) error {
	names, err := c.names(ctx, key)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(names, removeBatch) {
		var ops []metastore.Op
		for _, name := range batch {
			ops = append(ops, metastore.Op{Path: key + "/" + name, Do: metastore.DeleteTree})
		}
		if err := c.store.Commit(ctx, guards, ops); err != nil {
			return err
		}
	}
	return nil
}

// SweepOrphans removes pieces and logs of experiments that aren't there, and haven't been for so long, and returns the
// keys above those that there are now, and since when: the next sweep's before. A door writes pieces into a site before
// the experiment that it gives to it, and may end in between; a log may come while its experiment is being removed.
// Agents' reports of such are removed by the leader at once. now is of the caller's clock, guards are its leadership's.
func (c *Client) SweepOrphans(ctx context.Context, before map[string]time.Duration, now, unused time.Duration,
	guards ...metastore.Cond) (found map[string]time.Duration, err error) {
	found = map[string]time.Duration{}
	var all []string
	for _, above := range []string{keyPieces, keyLogs} {
		names, err := c.names(ctx, above)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, above+"/"+name)
		}
	}
	there, err := c.names(ctx, keyExperiments)
	if err != nil {
		return nil, err
	}
	for _, key := range all {
		id := key[strings.LastIndexByte(key, '/')+1:]
		if slices.Contains(there, id) || checkID(id) != nil {
			continue
		}
		since, known := before[key]
		if !known {
			since = now
		}
		if now-since < unused {
			found[key] = since
			continue
		}
		missing := append(slices.Clone(guards), metastore.Cond{Path: specKey(id), Is: metastore.Missing})
		err := c.removeBelow(ctx, key, missing)
		if err == nil {
			err = c.store.Commit(ctx, missing, []metastore.Op{{Path: key, Do: metastore.DeleteTree}})
		}
		if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && conflict.Cond.Path == specKey(id) {
			continue // it is there now
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
