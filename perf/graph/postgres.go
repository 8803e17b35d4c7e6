// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgres has the rows of a server of its own, on a Unix socket; what it writes isn't waited for (fsync=off).
func postgres(ctx context.Context, w *world) ([]job, func(), error) {
	server, err := storeserver.StartPostgres(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgconn.Connect(ctx, server.URL())
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	closeAll := func() { _ = conn.Close(ctx); server.Close() }
	jobs, end, err := databaseJobs(ctx, w, "postgres", server.URL(), "", &post{conn})
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	for i := range jobs {
		jobs[i].server = server.CPUSeconds
	}
	return jobs, func() { end(); closeAll() }, nil
}

// post is the driver of PostgreSQL.
type post struct{ conn *pgconn.PgConn }

func (p *post) exec(ctx context.Context, sql string) error {
	return p.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
}

func (p *post) insert(ctx context.Context, w *world) error {
	err := errors.Join(p.exec(ctx, "DROP TABLE IF EXISTS bare"), p.exec(ctx, "CREATE TABLE bare (layer INT, "+
		"source BIGINT, target BIGINT, weight DOUBLE PRECISION)"))
	if err != nil {
		return err
	}
	r, out := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(out, 64<<10)
		_, err := b.WriteString("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		word := binary.BigEndian
		var s []byte
		for id := range layerCount {
			e := w.layers[id]
			for i, source := range e.Source {
				s = word.AppendUint32(word.AppendUint32(word.AppendUint16(s[:0], 4), 4), uint32(id))
				s = word.AppendUint64(word.AppendUint32(s, 8), uint64(source))
				s = word.AppendUint64(word.AppendUint32(s, 8), uint64(e.Target[i]))
				s = word.AppendUint64(word.AppendUint32(s, 8), math.Float64bits(e.Weight[i]))
				if err == nil {
					_, err = b.Write(s)
				}
			}
		}
		if err == nil {
			_, err = b.WriteString("\xff\xff")
		}
		_ = out.CloseWithError(errors.Join(err, b.Flush())) // it never fails
	}()
	tag, err := p.conn.CopyFrom(ctx, r, "COPY bare FROM STDIN BINARY")
	_ = r.Close() // so that the goroutine ends
	return errors.Join(err, counted(int(tag.RowsAffected()), w.edges))
}

func (p *post) read(ctx context.Context, scenario int64, where string, params ...any) (e graph.Edges, err error) {
	values := [][]byte{fmt.Append(nil, scenario)}
	for _, v := range params {
		values = append(values, fmt.Append(nil, v))
	}
	rows := p.conn.ExecParams(ctx, "SELECT source_idx, target_idx, weight FROM graph.edges WHERE scenario_id = $1 "+
		where, values, nil, nil, []int16{1})
	word := binary.BigEndian
	for rows.NextRow() {
		v := rows.Values()
		e.Source, e.Target = append(e.Source, uint32(word.Uint64(v[0]))), append(e.Target, uint32(word.Uint64(v[1])))
		e.Weight = append(e.Weight, math.Float64frombits(word.Uint64(v[2])))
	}
	_, err = rows.Close()
	return e, err
}

func (p *post) among(column string, vertices []uint32) (string, any) {
	return column + " = ANY($2::bigint[])", "{" + joined(vertices) + "}"
}
