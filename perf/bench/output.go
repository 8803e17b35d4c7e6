// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"os"
	"runtime/pprof"

	"github.com/urfave/cli/v2"
)

// output is where the rows go.
type output struct {
	stdout  io.Writer
	text    bool     // rows as text on standard output
	gobench bool     // lines for benchstat there
	json    *os.File // nil: none
	toJSON  bool     // the JSON goes to standard output
	hgrm    string   // "": nowhere
}

// newOutput opens the files, so that a name that can't be written is known before
// anything is measured.
func newOutput(c *cli.Context, stdout io.Writer) (*output, error) {
	o := &output{stdout: stdout, gobench: c.Bool("gobench"), hgrm: c.String("hgrm")}
	name := c.String("json")
	o.toJSON = name == "-"
	if o.toJSON && o.gobench {
		return nil, usagef("--json - and --gobench both want standard output: give --json a file")
	}
	o.text = !o.toJSON && !o.gobench
	if o.hgrm != "" {
		if err := os.MkdirAll(o.hgrm, 0o755); err != nil {
			return nil, usagef("--hgrm: %w", err)
		}
	}
	if name != "" && !o.toJSON {
		f, err := os.Create(name)
		if err != nil {
			return nil, usagef("--json: %w", err)
		}
		o.json = f
	}
	return o, nil
}

func (o *output) close() {
	if o.json != nil {
		o.json.Close()
	}
}

// write puts all rows out.
func (o *output) write(rows []Row) error {
	if o.hgrm != "" {
		if _, err := WriteHgrm(o.hgrm, rows); err != nil {
			return err
		}
	}
	if o.gobench {
		WriteGobench(o.stdout, rows)
	}
	if o.toJSON {
		return WriteJSON(o.stdout, rows)
	}
	if o.json != nil {
		return WriteJSON(o.json, rows)
	}
	return nil
}

// profile starts a CPU profile of this process, which is the leading side.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, usagef("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("bench: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
