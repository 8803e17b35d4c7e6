// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/seed"
)

// testRecords reads users' own tables as Arrow records.
func testRecords(t *testing.T, url string) {
	ctx, db := t.Context(), open(t, url)
	id := create(t, db, "one")
	const vertices = RecordRows + 10
	g, err := graph.New(vertices, map[int]graph.Edges{5: {Source: []uint32{3, 3, 9}, Target: []uint32{1, 2, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Store(ctx, id, g, Content{}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE TABLE places (scenario_id BIGINT, vertex_index BIGINT, beds SMALLINT, area NUMERIC, " +
			"name VARCHAR(9), since DATE)",
		"INSERT INTO places SELECT scenario_id, vertex_index, vertex_index % 100, vertex_index * 0.5, name, " +
			"NULL FROM graph.vertices",
		"UPDATE places SET area = NULL, since = '2020-02-29' WHERE vertex_index % 3 = 0",
		"CREATE TABLE roads (scenario_id BIGINT, layer_id INT, source_idx BIGINT, target_idx BIGINT, length REAL)",
		"INSERT INTO roads SELECT scenario_id, layer_id, source_idx, target_idx, target_idx * 2.5 FROM graph.edges",
	} {
		if _, err := db.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	all := func(db *DB, read func(each func(arrow.RecordBatch) error) error) (rows []int64, text string, err error) {
		err = read(func(r arrow.RecordBatch) error {
			rows = append(rows, r.NumRows())
			for i, f := range r.Schema().Fields() {
				if r.NumRows() < 20 {
					text += fmt.Sprintf("%s %v %v; ", f.Name, f.Type, r.Column(i))
				}
			}
			return nil
		})
		return rows, text, err
	}
	places, roads := Table{Name: "places"}, Table{Name: "roads"}
	m, err := graph.MaskOf(vertices, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := all(db, func(each func(arrow.RecordBatch) error) error {
		return db.VertexRecords(ctx, id, places, []string{"beds", "area", "name", "since"}, m, each)
	})
	want := `beds int64 [2 3]; area float64 [1 (null)]; name utf8 ["2" "3"]; since utf8 [(null) "2020-02-29"]; `
	if err != nil || text != want {
		t.Errorf("found %s, %v, want %s", text, err, want)
	}
	_, text, err = all(db, func(each func(arrow.RecordBatch) error) error {
		return db.OutRecords(ctx, id, roads, []string{"target_idx", "length"}, 5, m, each)
	})
	if want := "target_idx int64 [1 2]; length float64 [2.5 5]; "; err != nil || text != want {
		t.Errorf("found %s, %v, want %s", text, err, want)
	}
	_, text, err = all(db, func(each func(arrow.RecordBatch) error) error {
		return db.InRecords(ctx, id, roads, []string{"source_idx"}, 5, m, each)
	})
	if want := "source_idx int64 [3 9]; "; err != nil || text != want {
		t.Errorf("found %s, %v, want %s", text, err, want)
	}
	rows, _, err := all(db, func(each func(arrow.RecordBatch) error) error {
		return db.VertexRecords(ctx, id, places, []string{"beds"}, nil, each)
	})
	if err != nil || fmt.Sprint(rows) != fmt.Sprint([]int{RecordRows, 10}) {
		t.Errorf("found records of %v rows, %v", rows, err)
	}
	stop := errors.New("enough")
	err = db.VertexRecords(ctx, id, places, []string{"beds"}, m, func(arrow.RecordBatch) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("found %v, want the caller's error", err)
	}
	var unknown *UnknownColumnsError
	err = db.VertexRecords(ctx, id, roads, []string{"length"}, nil, func(arrow.RecordBatch) error { return nil })
	if !errors.As(err, &unknown) || unknown.Missing[0] != "vertex_index" {
		t.Errorf("found %v, want the column that isn't there", err)
	}
}

// TestWrongKind: a value of SQLite may be of another kind than its column.
func TestWrongKind(t *testing.T) {
	ctx, db := t.Context(), open(t, "sqlite:"+t.TempDir()+"/x.db")
	id := create(t, db, "one")
	if err := db.Store(ctx, id, draw(t, seed.Rand(t), 10, 20), Content{}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE TABLE t (scenario_id INTEGER, vertex_index INTEGER, a INTEGER, b DOUBLE, c TEXT, d)",
		fmt.Sprintf("INSERT INTO t VALUES (%d, 0, 1, 2, 3, 4), (%d, 1, 'x', 'y', 5, 6.5)", id, id),
	} {
		if _, err := db.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for column, want := range map[string]string{"c": `["3" "5"]`, "d": `["4" "6.5"]`,
		"a": `table t, row 2 of those chosen, column "a": found text, want a whole number`,
		"b": `table t, row 2 of those chosen, column "b": found text, want a number`} {
		err := db.VertexRecords(ctx, id, Table{Name: "t"}, []string{column}, nil, func(r arrow.RecordBatch) error {
			return errors.New(r.Column(0).String())
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %s", column, err, want)
		}
	}
}
