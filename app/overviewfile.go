// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"io"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/model/overview"
)

// overviewFile is overview.json: the first screen, for programs that show it in their own way.
type overviewFile struct {
	Notes   []string        `json:"notes"`
	Blocks  []overviewBlock `json:"blocks"`
	Remarks []string        `json:"remarks"`
	Repeat  []string        `json:"repeat"`
}

type overviewBlock struct {
	Heads []string      `json:"heads"`
	Rows  []overviewRow `json:"rows"`
	More  int           `json:"more"`
}

type overviewRow struct {
	Name  string         `json:"name"`
	Cells []overviewCell `json:"cells"`
}

type overviewCell struct {
	Text string `json:"text"`
	Bad  bool   `json:"bad,omitempty"`
}

// writeOverview writes the first screen, of scenarios that have one, and how to repeat the run.
func (p *program) writeOverview(w *outdir.Writer, o *order, l *launch.Launch, out *launch.Outcome, d *document) error {
	f := overviewFile{Notes: []string{}, Blocks: []overviewBlock{}, Remarks: []string{}, Repeat: p.repeat(o, d)}
	if shower, ok := l.Scenario().(overview.Shower); ok && out.Summary != nil {
		page := shower.Overview(out.Summary)
		f.Notes, f.Remarks = append(f.Notes, page.Notes...), append(f.Remarks, page.Remarks...)
		if page.Alarm != "" {
			f.Notes = append(f.Notes, page.Alarm)
		}
		for _, b := range append([]overview.Block{page.Figures}, page.Blocks...) {
			one := overviewBlock{Heads: b.Heads, Rows: []overviewRow{}, More: b.More}
			for _, r := range b.Rows {
				row := overviewRow{Name: r.Name, Cells: []overviewCell{}}
				for _, c := range r.Cells {
					row.Cells = append(row.Cells, overviewCell{c.String(), c.Bad})
				}
				one.Rows = append(one.Rows, row)
			}
			f.Blocks = append(f.Blocks, one)
		}
	}
	return w.JSON(outdir.OverviewFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(&f) })
}
