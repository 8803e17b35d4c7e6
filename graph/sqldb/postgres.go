// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/jackc/pgx/v5/pgconn"
)

// post is a connection to PostgreSQL. Rows come and go in its binary form, and their values aren't boxed.
type post struct {
	conn   *pgconn.PgConn
	config *pgconn.Config
}

func openPost(ctx context.Context, url string) (engine, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DialFunc = dialing(ctx, config.DialFunc)
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	p := &post{conn, config}
	// Compiling a query takes longer than any that is made here. Servers before version 11 can't.
	const uncompiled = "SELECT set_config('jit', 'off', false) FROM pg_settings WHERE name = 'jit'"
	if _, err := p.exec(ctx, uncompiled); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *post) dialect() string { return "postgres" }
func (p *post) close() error    { return p.conn.Close(context.Background()) }

func (p *post) named(name string) (Table, string) { return Table{"graph", name}, name }

func (p *post) exec(ctx context.Context, sql string, params ...any) (int64, error) {
	r := p.conn.ExecParams(ctx, sql, texts(params), nil, nil, nil).Read()
	return r.CommandTag.RowsAffected(), p.said(ctx, r.Err)
}

// said is an error of the driver, which says of a connection that has ended only how that was seen.
func (p *post) said(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !p.conn.IsClosed() {
		return err
	}
	return fmt.Errorf("the connection to the server is lost: do this again when that runs (%w)", err)
}

// texts is parameters in the server's text form: it infers their types.
func texts(params []any) [][]byte {
	list := make([][]byte, len(params))
	for i, p := range params {
		switch p := p.(type) {
		case nil:
		case float64:
			list[i] = strconv.AppendFloat(nil, p, 'g', -1, 64)
		default:
			list[i] = fmt.Append(nil, p)
		}
	}
	return list
}

func (p *post) query(ctx context.Context, sql string, params []any, each func(Row) error) error {
	rows := p.conn.ExecParams(ctx, sql, texts(params), nil, nil, []int16{1})
	fields := rows.FieldDescriptions()
	kinds := make([]uint32, len(fields))
	for i := range fields {
		kinds[i] = fields[i].DataTypeOID
	}
	r := postRow{kinds: kinds}
	for rows.NextRow() {
		r.values = rows.Values()
		if err := each(&r); err != nil {
			_, more := rows.Close()
			return errors.Join(err, more)
		}
	}
	_, err := rows.Close()
	return p.said(ctx, err)
}

// Types of columns, as the server numbers them.
const (
	oidInt8, oidInt2, oidInt4 = 20, 21, 23
	oidFloat4, oidFloat8      = 700, 701
	oidNumeric                = 1700
)

func postKind(oid uint32) Kind {
	switch oid {
	case oidInt8, oidInt2, oidInt4:
		return Int
	case oidFloat4, oidFloat8, oidNumeric:
		return Float
	}
	return Text
}

type postRow struct {
	kinds  []uint32
	values [][]byte
}

func (r *postRow) Null(i int) bool { return r.values[i] == nil }
func (r *postRow) Kind(i int) Kind { return postKind(r.kinds[i]) }

func (r *postRow) Int(i int) int64 {
	b, word := r.values[i], binary.BigEndian
	switch {
	case r.kinds[i] == oidInt8 && len(b) == 8:
		return int64(word.Uint64(b))
	case r.kinds[i] == oidInt4 && len(b) == 4:
		return int64(int32(word.Uint32(b)))
	case r.kinds[i] == oidInt2 && len(b) == 2:
		return int64(int16(word.Uint16(b)))
	}
	return 0
}

func (r *postRow) Float(i int) float64 {
	b, word := r.values[i], binary.BigEndian
	switch {
	case r.kinds[i] == oidFloat8 && len(b) == 8:
		return math.Float64frombits(word.Uint64(b))
	case r.kinds[i] == oidFloat4 && len(b) == 4:
		return float64(math.Float32frombits(word.Uint32(b)))
	}
	return float64(r.Int(i))
}

func (r *postRow) Text(i int) string {
	switch r.kinds[i] {
	case oidInt2, oidInt4, oidInt8:
		return strconv.FormatInt(r.Int(i), 10)
	case oidFloat4, oidFloat8:
		return strconv.FormatFloat(r.Float(i), 'g', -1, 64)
	}
	return string(r.values[i])
}

func (p *post) bulk(ctx context.Context, table string, columns []column, rows int) error {
	names := make([]string, len(columns))
	columns = slices.Clone(columns)
	for i := range columns {
		c := &columns[i]
		names[i] = c.name
		if c.varies() {
			continue
		}
		if n, ok := c.same.(int64); ok {
			c.ints = func(int) int64 { return n }
			continue
		}
		text, ok := c.same.(string)
		c.text = func(int) (string, bool) { return text, ok }
	}
	from := &copying{columns: columns, rows: rows, buf: append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)}
	_, err := p.conn.CopyFrom(ctx, from, fmt.Sprintf("COPY %s (%s) FROM STDIN BINARY", table,
		strings.Join(names, ", ")))
	if panicked := from.close(); panicked != nil {
		panic(panicked)
	}
	return p.said(ctx, err)
}

// copying is rows in the binary form of COPY ("COPY", section "Binary Format", of PostgreSQL's manual), made as they
// are read.
type copying struct {
	columns []column
	rows    int
	row     int
	buf     []byte // made, and not read yet
	at      int
	ended   bool

	mu       sync.Mutex // held by Read: where a connection is lost the driver doesn't wait for its goroutine
	closed   bool       // nothing is read any more
	panicked any        // by a function of a column: in a goroutine of the driver a panic would end the process
}

// close waits for a Read under way, behind which no function of a column is called, and gives what one has panicked
// with.
func (c *copying) close() (panicked any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.panicked
}

// copyBytes is how much is made at once, at least.
const copyBytes = 64 << 10

func (c *copying) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, io.EOF
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			c.panicked = panicked
			n, err = 0, errPanicked
		}
	}()
	if c.at == len(c.buf) {
		if c.ended {
			return 0, io.EOF
		}
		c.buf, c.at = c.buf[:0], 0
	}
	for !c.ended && len(c.buf) < copyBytes {
		if c.row == c.rows {
			c.buf = binary.BigEndian.AppendUint16(c.buf, math.MaxUint16)
			c.ended = true
			break
		}
		c.append()
		c.row++
	}
	n = copy(p, c.buf[c.at:])
	c.at += n
	return n, nil
}

func (c *copying) append() {
	word := binary.BigEndian
	b := word.AppendUint16(c.buf, uint16(len(c.columns)))
	for i := range c.columns {
		switch col := &c.columns[i]; {
		case col.narrow:
			b = word.AppendUint32(word.AppendUint32(b, 4), uint32(int32(col.ints(c.row))))
		case col.ints != nil:
			b = word.AppendUint64(word.AppendUint32(b, 8), uint64(col.ints(c.row)))
		case col.floats != nil:
			b = word.AppendUint64(word.AppendUint32(b, 8), math.Float64bits(col.floats(c.row)))
		default:
			if text, ok := col.text(c.row); ok {
				b = append(word.AppendUint32(b, uint32(len(text))), text...)
			} else {
				b = word.AppendUint32(b, math.MaxUint32)
			}
		}
	}
	c.buf = b
}

func (p *post) begin(ctx context.Context, write bool) error {
	how := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	if write {
		how = "BEGIN"
	}
	_, err := p.exec(ctx, how)
	return err
}

func (p *post) end(ctx context.Context, commit bool) error {
	_, err := p.exec(ctx, endSQL(commit))
	return err
}

// also is another connection in a transaction of the same snapshot. A server that has no room for it may be another one
// behind the same name, too: there the snapshot isn't.
func (p *post) also(ctx context.Context) (engine, error) {
	snapshot := ""
	err := p.query(ctx, "SELECT pg_export_snapshot()", nil, func(r Row) error {
		snapshot = r.Text(0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, p.config.Copy())
	if err != nil {
		return nil, nil
	}
	more := &post{conn, p.config}
	if err := more.begin(ctx, false); err != nil {
		return nil, more.close()
	}
	if _, err := more.exec(ctx, "SET TRANSACTION SNAPSHOT '"+snapshot+"'"); err != nil {
		return nil, more.close()
	}
	return more, nil
}

func (p *post) chosen(column string, n int, vertices []uint32) (string, any) {
	return fmt.Sprintf("%s = ANY($%d::bigint[])", column, n), list(vertices)
}

// edgesSQL looks each vertex up: OFFSET keeps the inner query as it is. With "= ANY" PostgreSQL estimates each element,
// and reads the whole table where there are many.
func (p *post) edgesSQL(column string, vertices []uint32) (string, any) {
	return "SELECT e.source_idx, e.target_idx, e.weight FROM unnest($3::bigint[]) AS chosen (vertex), " +
		"LATERAL (SELECT source_idx, target_idx, weight FROM graph.edges WHERE scenario_id = $1 AND layer_id = $2 " +
		"AND " + column + " = chosen.vertex OFFSET 0) AS e", list(vertices)
}

// list is numbers as an array in the server's text form.
func list(vertices []uint32) string {
	b := []byte{'{'}
	for i, v := range vertices {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return string(append(b, '}'))
}

func (p *post) columns(ctx context.Context, t Table) (list []Column, err error) {
	name := quoted(t.Name)
	if t.Schema != "" {
		name = quoted(t.Schema) + "." + name
	}
	err = p.query(ctx, "SELECT attname::text, atttypid::bigint FROM pg_attribute "+
		"WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum", []any{name},
		func(r Row) error {
			list = append(list, Column{r.Text(0), postKind(uint32(r.Int(1)))})
			return nil
		})
	return list, err
}

// plain has what isn't a number of the machine's turned into one, or into text, by the server.
func (p *post) plain(c Column) string {
	return quoted(c.Name) + [...]string{Text: "::text", Int: "::bigint", Float: "::float8"}[c.Kind]
}

func (p *post) ago(d time.Duration) string {
	return fmt.Sprintf("now() - interval '%d seconds'", int64(d.Seconds()))
}

func (p *post) deleteEdges(ctx context.Context, scenario int64) error {
	_, err := p.exec(ctx, "DELETE FROM graph.edges WHERE scenario_id = $1", scenario)
	return err
}

// ownsEdges reports whether indexes of edges may be dropped: only the owner of a table may, whatever others may write.
func (p *post) ownsEdges(ctx context.Context) (owner bool, err error) {
	err = p.query(ctx, "SELECT pg_has_role(relowner, 'USAGE')::int FROM pg_class "+
		"WHERE oid = to_regclass('graph.edges')", nil, func(r Row) error {
		owner = r.Int(0) != 0
		return nil
	})
	return owner, err
}

// withoutIndexes drops the key as well, which is an index, too; rows that are deleted keep their entries in them.
func (p *post) withoutIndexes(ctx context.Context, scenario int64, g *graph.Graph, named bool) (anew func() error,
	err error) {
	if g.Edges() < manyEdges {
		return nothing, nil
	}
	if owner, err := p.ownsEdges(ctx); err != nil || !owner {
		return nothing, err
	}
	// What drops an index needs the table for itself: two that had looked into it before would wait for each other.
	if _, err := p.exec(ctx, "LOCK TABLE graph.edges IN ACCESS EXCLUSIVE MODE"); err != nil {
		return nothing, err
	}
	if more, err := others(ctx, p, scenario, g.Edges()); err != nil || more {
		return nothing, err
	}
	drop := []string{"DROP INDEX graph.edges_target", "ALTER TABLE graph.edges DROP CONSTRAINT edges_pkey",
		"SELECT set_config('maintenance_work_mem', '256MB', true) FROM pg_settings " +
			"WHERE name = 'maintenance_work_mem' AND setting::bigint < 262144"} // for sorting, in this transaction
	make := []string{"CREATE INDEX edges_target ON graph.edges (target_idx, scenario_id, layer_id)",
		"ALTER TABLE graph.edges ADD CONSTRAINT edges_pkey PRIMARY KEY (scenario_id, layer_id, source_idx, target_idx)"}
	if named {
		drop = append(drop, "DROP INDEX graph.edges_name")
		make = append(make, "CREATE UNIQUE INDEX edges_name ON graph.edges (scenario_id, layer_id, name) "+
			"WHERE name IS NOT NULL")
	}
	return func() error { return p.all(ctx, make) }, p.all(ctx, drop)
}

// all does several statements.
func (p *post) all(ctx context.Context, list []string) error {
	for _, sql := range list {
		if _, err := p.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (p *post) analyze(ctx context.Context, _ int64, _ *graph.Graph) error {
	_, err := p.exec(ctx, "ANALYZE graph.edges, graph.vertices, graph.labels, graph.vertex_labels")
	return err
}

// version makes the schema where there is none: one at a time, or two that begin at once would both.
func (p *post) version(ctx context.Context) (v int, err error) {
	for _, sql := range []string{"SELECT pg_advisory_xact_lock(7241003)::text", "CREATE SCHEMA IF NOT EXISTS graph",
		"CREATE TABLE IF NOT EXISTS graph.version (version INT NOT NULL)"} {
		if _, err := p.exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	err = p.query(ctx, "SELECT max(version) FROM graph.version", nil, func(r Row) (err error) {
		v, err = versionOf(r)
		return err
	})
	return v, err
}
