// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/graph"
)

// How a large graph is read: by so many connections at most, one for each processor, and each layer in so many pieces
// by source, of which each connection takes the next one.
const (
	readersMax  = 4
	layerPieces = 16
)

// piece is a part of a layer that is read at once.
type piece struct {
	layer  int64
	where  string
	params []any
	edges  graph.Edges
}

// edges counts the vertices of a scenario, and reads the edges of all layers.
func (db *DB) edges(ctx context.Context, scenario int64) (vertices int, layers map[int]graph.Edges, err error) {
	last, err := db.lastVertex(ctx, scenario)
	if err != nil {
		return 0, nil, err
	}
	ids, err := db.layers(ctx, scenario)
	if err != nil {
		return 0, nil, err
	}
	readers, err := db.readers(ctx, scenario)
	if err != nil {
		return 0, nil, err
	}
	var list []piece
	for _, id := range ids {
		list = append(list, pieces(id, int64(last), len(readers))...)
	}
	reads := []func(engine) error{func(e engine) (err error) {
		vertices, err = countVertices(ctx, e, scenario)
		return err
	}}
	var room atomic.Int64 // as many edges as the last piece had, and some more
	for i := range list {
		p := &list[i]
		reads = append(reads, func(e engine) (err error) {
			p.edges, err = layerEdges(ctx, e, layerSQL("graph.edges", p.where),
				append([]any{scenario, p.layer}, p.params...), int(room.Load()))
			room.Store(int64(len(p.edges.Source) + len(p.edges.Source)/8))
			return err
		})
	}
	err = errors.Join(readAll(reads, readers), closeAll(readers[1:]))
	if err != nil {
		return 0, nil, err
	}
	return vertices, joined(list), nil
}

// layers lists the layers of a scenario that have edges, rising.
func (db *DB) layers(ctx context.Context, scenario int64) (ids []int64, err error) {
	where, params := "", []any{scenario}
	for {
		before := len(ids)
		err := db.query(ctx, "SELECT layer_id, source_idx, target_idx, weight FROM graph.edges WHERE scenario_id = $1"+
			where+" ORDER BY layer_id, source_idx, target_idx LIMIT 1", params, func(r Row) error {
			ids = append(ids, r.Int(0))
			return checkKinds("edges", r, edgeColumns)
		})
		if err != nil || len(ids) == before {
			return ids, err
		}
		where, params = " AND layer_id > $2", []any{scenario, ids[before]}
	}
}

// readers are connections that see what this one sees: it alone, unless there is much to be read in a transaction that
// only reads, and others can be had.
func (db *DB) readers(ctx context.Context, scenario int64) (list []engine, err error) {
	list = []engine{db.engine}
	most := min(readersMax, runtime.GOMAXPROCS(0))
	if !db.reading || most == 1 {
		return list, nil
	}
	many := false
	err = db.query(ctx, "SELECT 1 FROM graph.edges WHERE scenario_id = $1 LIMIT 1 OFFSET $2",
		[]any{scenario, int64(manyEdges - 1)}, func(Row) error {
			many = true
			return nil
		})
	for many && len(list) < most {
		more, failed := db.also(ctx)
		if failed != nil {
			return nil, errors.Join(failed, closeAll(list[1:]))
		}
		if more == nil {
			break
		}
		list = append(list, more)
	}
	return list, err
}

func closeAll(list []engine) (err error) {
	for _, e := range list {
		err = errors.Join(err, e.close())
	}
	return err
}

// pieces are those of a layer of a graph of n vertices. What no graph may have is in the first or the last one.
func pieces(layer, n int64, readers int) (list []piece) {
	if readers == 1 {
		return []piece{{layer: layer}}
	}
	for i := range int64(layerPieces) {
		from, to := n*i/layerPieces, n*(i+1)/layerPieces
		p := piece{layer: layer, where: " AND source_idx >= $3 AND source_idx < $4", params: []any{from, to}}
		switch i {
		case 0:
			p.where, p.params = " AND source_idx < $3", []any{to}
		case layerPieces - 1:
			p.where, p.params = " AND source_idx >= $3", []any{from}
		}
		list = append(list, p)
	}
	return list
}

// readAll has each reader do what is next in a list, up to what can't be done: then all before it has been. The error
// is the first one's.
func readAll(list []func(engine) error, readers []engine) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, len(list))
	read := func(e engine) {
		for !failed.Load() {
			i := next.Add(1) - 1
			if i >= int64(len(list)) {
				return
			}
			if errs[i] = list[i](e); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var wait sync.WaitGroup
	for _, r := range readers[1:] {
		wait.Go(func() { read(r) })
	}
	read(readers[0])
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// joined is the edges of each layer, whose pieces come one after the other.
func joined(list []piece) map[int]graph.Edges {
	layers := map[int]graph.Edges{}
	for len(list) > 0 {
		n, edges := 0, 0
		for n < len(list) && list[n].layer == list[0].layer {
			edges += len(list[n].edges.Source)
			n++
		}
		e := list[0].edges
		if n > 1 {
			e = graph.Edges{Source: make([]uint32, 0, edges), Target: make([]uint32, 0, edges),
				Weight: make([]float64, 0, edges)}
			for i := range list[:n] {
				p := &list[i].edges
				e.Source, e.Target = append(e.Source, p.Source...), append(e.Target, p.Target...)
				e.Weight = append(e.Weight, p.Weight...)
				*p = graph.Edges{} // so that there aren't both for long
			}
		}
		layers[int(list[0].layer)] = e
		list = list[n:]
	}
	return layers
}

// layerEdges reads edges of a layer, the second parameter; room is as many as there may be.
func layerEdges(ctx context.Context, from engine, sql string, params []any, room int) (e graph.Edges, err error) {
	layer := params[1].(int64)
	e = graph.Edges{Source: make([]uint32, 0, room), Target: make([]uint32, 0, room), Weight: make([]float64, 0, room)}
	err = from.query(ctx, sql, params, func(r Row) error {
		if r.Kind(0) != Int || r.Kind(1) != Int || r.Kind(2) != Float {
			if err := checkKinds(fmt.Sprintf("edges, layer %d", layer), r, edgeColumns[1:]); err != nil {
				return err
			}
		}
		source, target, err := endsOf(layer, r.Int(0), r.Int(1))
		if err != nil {
			return err
		}
		e.Source, e.Target = append(e.Source, source), append(e.Target, target)
		e.Weight = append(e.Weight, r.Float(2))
		return nil
	})
	return e, err
}

// layerSQL reads edges of a layer, the second parameter, that a condition chooses.
func layerSQL(table, where string) string {
	return "SELECT source_idx, target_idx, weight FROM " + table + " WHERE scenario_id = $1 AND layer_id = $2" + where +
		" ORDER BY source_idx, target_idx"
}
