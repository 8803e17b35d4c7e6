// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/graph"
)

// While a large graph's edges are put into their table, which one processor does, another one puts them by target into
// a file of SQLite beside the database's. A table is copied to another one of the same schema in a third of the time
// ("xferOptimization" in SQLite's insert.c). The file has a name of its own, since only one stores at once; one that a
// killed process has left is overwritten.
const (
	besideSuffix = "-disco-sorted"
	besideSchema = "disco_sorted"
)

// beside is such a file. The goroutine that fills it has it alone until done is closed.
type beside struct {
	file   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// startBeside begins to fill it.
func (l *lite) startBeside(ctx context.Context, scenario int64, g *graph.Graph) error {
	file := l.file + besideSuffix
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("what an earlier store has left: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, l.is.Mode().Perm()) // whoever may read the edges
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &beside{file: file, cancel: cancel, done: make(chan struct{})}
	l.beside = b
	go func() {
		defer close(b.done)
		b.err = fillBeside(ctx, file, scenario, g)
	}()
	return nil
}

func fillBeside(ctx context.Context, file string, scenario int64, g *graph.Graph) (err error) {
	l, err := openWaiting(ctx, file, false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	for _, sql := range []string{"PRAGMA cache_size = -8192", "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF",
		sortedTable} {
		if _, err := l.exec(ctx, sql); err != nil {
			return err
		}
	}
	for _, id := range g.Layers() {
		e := g.Layer(id).Transposed().Columns()
		err := l.bulk(ctx, "graph_edges_sorted", []column{
			{name: "scenario_id", same: scenario},
			{name: "layer_id", same: int64(id)},
			{name: "target_idx", ints: func(i int) int64 { return int64(e.Source[i]) }},
			{name: "source_idx", ints: func(i int) int64 { return int64(e.Target[i]) }},
		}, len(e.Source))
		if err != nil {
			return fmt.Errorf("layer %d: %w", id, err)
		}
	}
	return nil
}

// takeBeside waits until it is full, and has its rows copied.
func (l *lite) takeBeside(ctx context.Context) error {
	b := l.beside
	<-b.done // which ends when ctx does
	if b.err != nil {
		return fmt.Errorf("sorting edges in %s: %w", b.file, b.err)
	}
	if _, err := l.exec(ctx, "ATTACH $1 AS "+besideSchema, b.file); err != nil {
		return err
	}
	_, err := l.exec(ctx, "INSERT INTO main.graph_edges_sorted SELECT * FROM "+besideSchema+".graph_edges_sorted")
	return err
}

// endBeside does away with it when the transaction has ended, in which it couldn't be detached.
func (l *lite) endBeside(ctx context.Context) {
	b := l.beside
	if b == nil {
		return
	}
	l.beside = nil
	b.cancel()
	<-b.done
	_, _ = l.exec(ctx, "DETACH "+besideSchema) // unless it wasn't attached
	_ = os.Remove(b.file)                      // or the next store does
}
