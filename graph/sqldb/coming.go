// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"errors"

	"zombiezen.com/go/sqlite"
)

// comingTable is a virtual table of each connection to SQLite: the rows that bulk inserts. It has comingMax columns,
// c0 and the following ones, of which those that bulk doesn't name are never asked for.
const (
	comingTable  = "disco_coming_rows"
	comingMax    = 4
	comingSchema = "CREATE TABLE x (c0, c1, c2, c3)"
)

// coming is the rows that are being inserted.
type coming struct {
	columns  []column
	rows     int
	panicked any // by a function of a column
}

// module has the virtual table of a connection.
func (l *lite) module() *sqlite.Module {
	return &sqlite.Module{Connect: func(*sqlite.Conn, *sqlite.VTableConnectOptions) (sqlite.VTable,
		*sqlite.VTableConfig, error) {
		return comingRows{l}, &sqlite.VTableConfig{Declaration: comingSchema}, nil
	}}
}

// errPanicked ends a statement; bulk then panics with what a function of a column has.
var errPanicked = errors.New("sqldb: a function of a column panicked")

// comingRows is the table.
type comingRows struct{ *lite }

// BestIndex says that there is one way to read it, from the first row to the last.
func (comingRows) BestIndex(*sqlite.IndexInputs) (*sqlite.IndexOutputs, error) {
	return &sqlite.IndexOutputs{EstimatedCost: 1e6, EstimatedRows: 1e6}, nil
}

// Open begins to read it.
func (r comingRows) Open() (sqlite.VTableCursor, error) { return &comingRow{of: &r.coming}, nil }

// Disconnect has nothing to do.
func (comingRows) Disconnect() error { return nil }

// Destroy has nothing to do.
func (comingRows) Destroy() error { return nil }

// comingRow is a row of it.
type comingRow struct {
	of  *coming
	row int
}

// Filter goes to the first row.
func (r *comingRow) Filter(sqlite.IndexID, []sqlite.Value) error {
	r.row = 0
	return nil
}

// Next goes to the next row.
func (r *comingRow) Next() error {
	r.row++
	return nil
}

// EOF reports whether it is behind the last row.
func (r *comingRow) EOF() bool { return r.row >= r.of.rows }

// Column is a value of the row.
func (r *comingRow) Column(i int, _ bool) (sqlite.Value, error) {
	switch c := &r.of.columns[i]; {
	case c.ints != nil:
		return sqlite.IntegerValue(c.ints(r.row)), nil
	case c.floats != nil:
		return sqlite.FloatValue(c.floats(r.row)), nil
	default:
		return r.text(c)
	}
}

// text is that of a caller's function: its panic must not go through SQLite, which then can't roll back. bulk panics in
// its place.
func (r *comingRow) text(c *column) (v sqlite.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.of.panicked, err = p, errPanicked
		}
	}()
	if text, ok := c.text(r.row); ok {
		return sqlite.TextValue(text), nil
	}
	return sqlite.Value{}, nil
}

// RowID is the number of the row.
func (r *comingRow) RowID() (int64, error) { return int64(r.row), nil }

// Close has nothing to do.
func (r *comingRow) Close() error { return nil }
