// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// recordsTable is the file of --records, without its ending (docs/outputs.md).
const recordsTable = "records"

func recordsFlag() cli.Flag {
	return &cli.BoolFlag{Category: groupOutput, Name: "records", DisableDefaultText: true,
		Usage: "with --out, write a row for each request, packet, customer or order to records.parquet there: when " +
			"it began and ended, where, how long it waited, what became of it"}
}

// records is what --records needs while a run goes on.
type records struct {
	scenario scenario.Recorder
	out      *outdir.Writer // that has the file, when it was written
}

// wantRecords has what handlers record kept, where that is asked for. end throws away what a failed run leaves.
func (o *order) wantRecords() (end func()) {
	if o.records == nil {
		return func() {}
	}
	o.config.Records = &launch.Records{Path: filepath.Join(o.out, recordsTable+".parquet"),
		Write: func(ctx context.Context, all []launch.RecordsOf) error {
			o.records.out.Abort()
			o.records.out = o.outDir.Begin(Version())
			return o.records.write(ctx, all)
		}}
	return func() { o.records.out.Abort() }
}

// checkKind refuses what a scenario's kind can't give.
func (o *order) checkKind(s scenario.Scenario) error {
	return cmp.Or(o.checkCSV(s), o.records.check(s), o.checkTables(s))
}

// check refuses scenarios that record nothing.
func (r *records) check(s scenario.Scenario) error {
	if r == nil {
		return nil
	}
	var ok bool
	if r.scenario, ok = s.(scenario.Recorder); !ok {
		return usage("--records: found %s, whose kind records nothing, want one of the kinds service, network, "+
			"queueing or supply, or a model of package sim", s.Name())
	}
	return nil
}

// beginOut is the writer of a directory at the end of a run: of --out with the records, where there are any.
func (o *order) beginOut(dir *outdir.Dir) *outdir.Writer {
	if o.records != nil && o.records.out != nil && dir == o.outDir {
		return o.records.out
	}
	return dir.Begin(Version())
}

// write writes the file.
func (r *records) write(ctx context.Context, all []launch.RecordsOf) error {
	columns := []outdir.Column{{Name: "replication", Type: outdir.Int}}
	types := [...]outdir.Type{scenario.RecordInt: outdir.Int, scenario.RecordNumber: outdir.Number,
		scenario.RecordName: outdir.Name}
	for _, c := range r.scenario.RecordColumns() {
		columns = append(columns, outdir.Column{Name: c.Name, Type: types[c.Type], NameOf: c.NameOf})
	}
	return r.out.Parquet(recordsTable, columns, func(p *outdir.Rows) error {
		for i := range all {
			rep := &all[i]
			w := &recordWriter{p: p, replication: int64(rep.Replication)}
			rows, count := r.scenario.Records(rep.Reached), 0
			err := rep.Each(func(row *node.Recorded) error {
				if count++; count%(1<<16) == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				return rows.Take(row, w)
			})
			if err == nil {
				err = rows.End(w)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// recordWriter is a scenario.RecordWriter that puts the column of the replication in front.
type recordWriter struct {
	p           *outdir.Rows
	replication int64
}

func (w *recordWriter) Int(column int, x int64)      { w.p.Int(column+1, x) }
func (w *recordWriter) Number(column int, x float64) { w.p.Number(column+1, x) }
func (w *recordWriter) Name(column, number int)      { w.p.Name(column+1, number) }

func (w *recordWriter) Row() error {
	w.p.Int(0, w.replication)
	return w.p.Row()
}
