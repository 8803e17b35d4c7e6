// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/frame"
	"github.com/disco-sim/disco/graph/frame/parquetfile"
	"github.com/disco-sim/disco/internal/graphfile"
)

// files has the rows of tables in files, by numbers of vertices, without those of PostgreSQL or SQLite around them.
func files(_ context.Context, w *world) ([]job, func(), error) {
	var jobs []job
	for _, kind := range []string{"csv", "parquet"} {
		f := graphfile.Files{Edges: filepath.Join(w.temp, "edges."+kind),
			Vertices: filepath.Join(w.temp, "vertices."+kind), ByID: true}
		bare := filepath.Join(w.temp, "bare."+kind)
		d := &graphfile.Data{Graph: w.g, Vertices: w.names}
		if err := graphfile.Write(f, d); err != nil {
			return nil, nil, err
		}
		writing, reading := bareCSVWrite, bareCSVRead
		if kind == "parquet" {
			writing, reading = bareParquetWrite, bareParquetRead
		}
		jobs = append(jobs, job{name: kind + "-export", ours: timed(func(context.Context) error {
			return graphfile.Write(f, d)
		}), bare: timed(func(context.Context) error { return writing(w, bare) })},
			job{name: kind + "-import", ours: timed(func(context.Context) error {
				got, err := graphfile.Read(f)
				if err != nil {
					return err
				}
				return counted(got.Graph.Edges(), w.edges)
			}), bare: timed(func(context.Context) error {
				n, err := reading(f.Edges)
				return errors.Join(err, counted(n, w.edges))
			})})
	}
	return jobs, func() {}, nil
}

// writeFile writes a file through a buffer.
func writeFile(name string, write func(*bufio.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	return errors.Join(write(b), b.Flush(), f.Close())
}

// bareCSVWrite writes the edges, and nothing else.
func bareCSVWrite(w *world, name string) error {
	return writeFile(name, func(b *bufio.Writer) error {
		var s []byte
		for id := range layerCount {
			e := w.layers[id]
			for i, source := range e.Source {
				s = append(strconv.AppendUint(s[:0], uint64(source), 10), ',')
				s = append(strconv.AppendUint(s, uint64(e.Target[i]), 10), ',')
				s = append(strconv.AppendFloat(s, e.Weight[i], 'g', -1, 64), ',')
				s = append(strconv.AppendInt(s, int64(id), 10), '\n')
				if _, err := b.Write(s); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bareCSVRead reads the edges into columns, by the reader of Go's library.
func bareCSVRead(name string) (int, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := csv.NewReader(bufio.NewReaderSize(f, 1<<16))
	in.ReuseRecord = true
	if _, err := in.Read(); err != nil {
		return 0, err
	}
	var e graph.Edges
	for {
		r, err := in.Read()
		if errors.Is(err, io.EOF) {
			return len(e.Source), nil
		}
		if err != nil {
			return 0, err
		}
		source, err1 := strconv.ParseUint(r[0], 10, 32)
		target, err2 := strconv.ParseUint(r[1], 10, 32)
		weight, err3 := strconv.ParseFloat(r[2], 64)
		_, err4 := strconv.ParseInt(r[3], 10, 32)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return 0, err
		}
		e.Source, e.Target = append(e.Source, uint32(source)), append(e.Target, uint32(target))
		e.Weight = append(e.Weight, weight)
	}
}

// bareParquetWrite writes the layers' own columns.
func bareParquetWrite(w *world, name string) error {
	return writeFile(name, func(b *bufio.Writer) error {
		var out *parquetfile.Writer
		for _, id := range w.g.Layers() {
			r := frame.Edges(w.g.Layer(id))
			var err error
			if out == nil {
				if out, err = parquetfile.NewWriter(b, r.Schema()); err != nil {
					return err
				}
			}
			if err = out.Write(r); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

// bareParquetRead reads all columns, and makes nothing of them.
func bareParquetRead(name string) (n int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	in, err := parquetfile.Open(f, info.Size())
	if err != nil {
		return 0, err
	}
	return n, in.Read(in.Columns(), func(r arrow.RecordBatch) error {
		n += int(r.NumRows())
		return nil
	})
}
