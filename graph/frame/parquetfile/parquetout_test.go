// SPDX-License-Identifier: Apache-2.0

package parquetfile

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/disco-sim/disco/internal/parquetout"
)

// TestParquetout: this library reads what package parquetout writes, in groups of rows and with values missing.
func TestParquetout(t *testing.T) {
	for _, rows := range []int{0, 1, 9, 300_000} {
		var file bytes.Buffer
		w, err := parquetout.NewWriter(&file, []parquetout.Column{{Name: "whole", Type: parquetout.Int},
			{Name: "x", Type: parquetout.Number}, {Name: "yes", Type: parquetout.Bool},
			{Name: "tüxt", Type: parquetout.Text}, {Name: "none", Type: parquetout.Number},
			{Name: "many", Type: parquetout.Name, NameOf: func(n int) string { return fmt.Sprint("ä", n) }},
			{Name: "one", Type: parquetout.Name, NameOf: func(int) string { return "" }},
			{Name: "nobody", Type: parquetout.Name}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if i%7 != 3 {
				w.Int(0, int64(i)<<33)
				w.Number(1, float64(i)/3)
			}
			w.Bool(2, i%3 == 0)
			if i%5 > 1 {
				w.Text(3, fmt.Sprint("nö ", i))
			}
			if i%11 != 5 {
				w.Name(5, i*i%1013)
			}
			w.Name(6, 0)
			if err := w.Row(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r := opened(t, file.Bytes())
		names := []string{"whole", "x", "yes", "tüxt", "none", "many", "one", "nobody"}
		if got, want := fmt.Sprint(r.Columns(), r.Rows()), fmt.Sprint(names, rows); got != want {
			t.Fatalf("found %s, want %s", got, want)
		}
		at := 0
		err = r.Read(names, func(b arrow.RecordBatch) error {
			for k := range int(b.NumRows()) {
				want := []any{int64(at) << 33, float64(at) / 3, at%3 == 0, fmt.Sprint("nö ", at), nil,
					fmt.Sprint("ä", at*at%1013), "", nil}
				if at%7 == 3 {
					want[0], want[1] = nil, nil
				}
				if at%5 <= 1 {
					want[3] = nil
				}
				if at%11 == 5 {
					want[5] = nil
				}
				for c := range want {
					if got := cell(b.Column(c), k); got != want[c] {
						return fmt.Errorf("row %d, column %d: found %v, want %v", at, c, got, want[c])
					}
				}
				at++
			}
			return nil
		})
		if err != nil || at != rows {
			t.Fatalf("%d of %d rows: %v", at, rows, err)
		}
	}
}
