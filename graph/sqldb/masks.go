// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"fmt"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/google/uuid"
)

// Masks in the database are for users' own SQL, which joins graph.vertex_masks (in SQLite graph_vertex_masks) by
// scenario_id, mask_id and vertex_index; this package itself sends the vertices along, which takes no longer.

// SaveMask puts a mask into the database, and returns its id.
func (db *DB) SaveMask(ctx context.Context, scenario int64, m *graph.Mask) (id string, err error) {
	id = uuid.NewString()
	vertices := m.Vertices()
	err = within(ctx, db.engine, true, func() error {
		n, err := countVertices(ctx, db.engine, scenario)
		if err == nil && n != m.Len() {
			err = fmt.Errorf("found a mask of %d vertices, want %d", m.Len(), n)
		}
		if err != nil {
			return err
		}
		return db.bulk(ctx, "graph.vertex_masks", []column{
			{name: "scenario_id", same: scenario}, {name: "mask_id", same: id},
			{name: "vertex_index", ints: func(i int) int64 { return int64(vertices[i]) }},
		}, len(vertices))
	})
	if err != nil {
		return "", db.wrap(err)
	}
	return id, nil
}

// TouchMask keeps a mask from being cleaned up for as long again; an error says that there is none.
func (db *DB) TouchMask(ctx context.Context, scenario int64, id string) error {
	n, err := db.exec(ctx, "UPDATE graph.vertex_masks SET updated_at = "+db.ago(0)+
		" WHERE scenario_id = $1 AND mask_id = $2", scenario, id)
	if err == nil && n == 0 {
		err = &NotFoundError{What: fmt.Sprintf("mask %q of scenario %d", id, scenario)}
	}
	return db.wrap(err)
}

// DeleteMask deletes a mask; one that isn't there is no error.
func (db *DB) DeleteMask(ctx context.Context, scenario int64, id string) error {
	_, err := db.exec(ctx, "DELETE FROM graph.vertex_masks WHERE scenario_id = $1 AND mask_id = $2", scenario, id)
	return db.wrap(err)
}

// CleanMasks deletes the masks of all scenarios that were saved or touched longer ago than age.
func (db *DB) CleanMasks(ctx context.Context, age time.Duration) error {
	_, err := db.exec(ctx, "DELETE FROM graph.vertex_masks WHERE updated_at < "+db.ago(age))
	return db.wrap(err)
}
