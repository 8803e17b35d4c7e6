// SPDX-License-Identifier: Apache-2.0

// Package outdir writes the directory of files that a run's results go to: docs/outputs.md has what is in it.
//
// Guarantee: a directory that has anything else in it than what an earlier run has written there is refused before a
// run, and nothing of it is changed. Each file appears whole or not at all, and result.json last: a directory without
// it is one whose writer was killed, and may be written to again. Memory is bounded by a row of each table, however
// long the tables are.
//
//	d, err := outdir.Open(dir)             // before the run
//	unlock, err := d.Lock()
//	defer unlock()
//	w, err := d.Begin("0.4.2")             // when there are results
//	t, err := w.Table("series", columns)
//	err = t.Row(cells)
//	err = w.Result(writeJSON)
package outdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/procfs"
)

// Names of files of an output.
const (
	ResultFile   = "result.json"
	ScenarioFile = "scenario.yml"
	GraphFile    = "graph.json"
	OverviewFile = "overview.json"
	LiveFile     = "live.json" // how far a run is that writes while it goes on (docs/live.md)
	listFile     = "output.json"
)

// list is output.json: what an output has put into a directory.
type list struct {
	Form  int      `json:"format"`
	Disco string   `json:"disco"` // version
	Files []string `json:"files"`
}

const (
	format       = 1
	listBytesMax = 1 << 20
)

// Dir is a directory that may be written to.
type Dir struct {
	path   string
	before []string // files of an earlier output
	live   bool     // the run writes while it goes on
	old    bool     // what is there is of an earlier run that did
}

// Open looks at a directory, and makes it where there is none. The error says what stands in the way.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	if err := os.Mkdir(path, 0o777); err == nil {
		return d, nil
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, outfile.Error(path, err)
	}
	if err := d.look(); err != nil {
		return nil, err
	}
	return d, outfile.Check(filepath.Join(path, listFile))
}

// look refuses what no earlier run has written, and notes what one has.
func (d *Dir) look() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("%s can't be read as a directory: %w", d.path, errors.Unwrap(err))
	}
	if len(entries) > 0 {
		if err := d.readList(); err != nil {
			return err
		}
	}
	for _, e := range entries {
		name := e.Name()
		if d.old = d.old || name == LiveFile; name == LiveFile {
			continue
		}
		if name != listFile && !slices.Contains(d.before, name) {
			return fmt.Errorf("%s: found %.100q in it, want an empty directory, or one with nothing in it but "+
				"what an earlier run has written: name another one", d.path, name)
		}
	}
	return nil
}

// Lock keeps other runs out of the directory until unlock, or the end of this process, and looks at it once more:
// another one may have ended since Open. The error says which process writes there. Where the file system knows no
// locks of directories, nothing is kept out.
func (d *Dir) Lock() (unlock func(), err error) {
	unlock, err = outfile.LockDir(d.path)
	if locked := (*outfile.LockedError)(nil); errors.As(err, &locked) {
		who := "another process"
		if locked.PID > 0 {
			who = fmt.Sprintf("process %d (%.200q)", locked.PID, strings.Join(procfs.Command(locked.PID), " "))
		}
		return nil, fmt.Errorf("%s: %s writes to it: wait for its end, or name another directory", d.path, who)
	}
	if err != nil {
		return nil, err
	}
	if err := d.look(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// readList reads what an earlier output has listed.
func (d *Dir) readList() error {
	path := filepath.Join(d.path, listFile)
	text, err := infile.Read(path, infile.Kind{Name: "a list of files", BytesMax: listBytesMax})
	var l list
	if err == nil && json.Unmarshal(text, &l) != nil {
		err = errors.New("found no JSON of a format and names of files")
	}
	for _, name := range l.Files {
		if !plain(name) {
			err = errors.Join(err, fmt.Errorf("it lists %.100q", name))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: found a directory that isn't empty and has no %s, want an empty one, or one that an "+
			"earlier run has written: name another one", d.path, listFile)
	}
	if err == nil && l.Form != format {
		err = fmt.Errorf("found format %d, want %d", l.Form, format)
	}
	if err != nil {
		return fmt.Errorf("%s isn't the list of an earlier run's files: %w: name another directory", path, err)
	}
	d.before = l.Files
	return nil
}

// Plain reports whether a name is one that an output's directory may have.
func Plain(name string) bool { return plain(name) || name == LiveFile || name == listFile }

// plain reports whether a name is one of an output's files.
func plain(name string) bool {
	switch name {
	case ResultFile, ScenarioFile, GraphFile, OverviewFile:
		return true
	}
	base, ok := strings.CutSuffix(name, ".csv")
	if !ok {
		base, ok = strings.CutSuffix(name, ".parquet")
	}
	return ok && tableName(base)
}

// tableName reports whether a table may be called so: a file of that name is where it should be.
func tableName(name string) bool {
	return name != "" && len(name) <= 100 && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// Writer writes one output. One goroutine uses it.
type Writer struct {
	dir    *Dir
	disco  string
	names  []string
	files  []*outfile.File
	tables []*Table
	ended  bool

	killed func() bool // for tests: asked before each step of the commit; nil: never
}

// Begin begins an output of a version of disco. Nothing is in the directory before Result.
func (d *Dir) Begin(disco string) *Writer { return &Writer{dir: d, disco: disco} }

// Live says how far a run is that writes while it goes on: text is all of LiveFile from now on. With the first of them
// the result of an earlier run goes.
func (d *Dir) Live(text []byte) error {
	w := &Writer{dir: d}
	if !d.live {
		d.live = true
		if err := w.writeList(d.before); err != nil {
			return err
		}
		if err := w.remove(ResultFile); err != nil {
			return err
		}
	}
	f, err := outfile.Create(filepath.Join(d.path, LiveFile))
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

// create begins a file.
func (w *Writer) create(name string) (*outfile.File, error) {
	f, err := outfile.Create(filepath.Join(w.dir.path, name))
	if err == nil {
		w.names, w.files = append(w.names, name), append(w.files, f)
	}
	return f, err
}

// Scenario is the text of the scenario's file.
func (w *Writer) Scenario(text []byte) error {
	f, err := w.create(ScenarioFile)
	if err == nil {
		_, err = f.Write(text)
	}
	return err
}

// JSON writes a file that has JSON, GraphFile or OverviewFile.
func (w *Writer) JSON(name string, write func(io.Writer) error) error {
	f, err := w.create(name)
	if err == nil {
		err = write(f)
	}
	return err
}

// Result writes result.json, and of it the tables; then all files appear.
func (w *Writer) Result(write func(io.Writer) error) error {
	f, err := w.create(ResultFile)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	end, err := f.File().Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	err = w.resultTables(func() io.Reader { return io.NewSectionReader(f.File(), 0, end) })
	for _, t := range w.tables {
		err = errors.Join(err, t.close())
	}
	if err != nil {
		return err
	}
	return w.commit()
}

// commit has the files appear, in place of those of an earlier output. The list comes first, so that whatever is there
// when this is interrupted is known to be of an output; result.json is the first to go, and the last to appear.
func (w *Writer) commit() error {
	w.ended = true
	for i, name := range w.names { // result.json isn't the first that was begun
		if name == ResultFile {
			last := len(w.names) - 1
			w.names[i], w.names[last] = w.names[last], name
			w.files[i], w.files[last] = w.files[last], w.files[i]
			break
		}
	}
	all := slices.Clone(w.names)
	for _, name := range w.dir.before {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	defer func() {
		for _, f := range w.files { // those that were committed are closed
			f.Abort()
		}
	}()
	if err := w.writeList(all); err != nil {
		return err
	}
	if slices.Contains(w.dir.before, ResultFile) && !w.dir.live { // else each file takes the place of the one before
		if err := w.remove(ResultFile); err != nil {
			return err
		}
	}
	if w.dir.old && !w.dir.live {
		if err := w.remove(LiveFile); err != nil {
			return err
		}
		w.dir.old = false
	}
	for _, name := range w.dir.before {
		if !slices.Contains(w.names, name) {
			if err := w.remove(name); err != nil {
				return err
			}
		}
	}
	for _, f := range w.files {
		if err := w.step(); err != nil {
			return err
		}
		if err := f.Commit(); err != nil {
			return err
		}
	}
	w.dir.before = slices.Clone(w.names)
	return w.writeList(w.names)
}

var errKilled = errors.New("outdir: killed")

// step is the end of a writer that is killed here.
func (w *Writer) step() error {
	if w.killed != nil && w.killed() {
		return errKilled
	}
	return nil
}

func (w *Writer) remove(name string) error {
	if err := w.step(); err != nil {
		return err
	}
	path := filepath.Join(w.dir.path, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return outfile.Error(path, err)
	}
	return nil
}

// writeList writes output.json.
func (w *Writer) writeList(names []string) error {
	if err := w.step(); err != nil {
		return err
	}
	f, err := outfile.Create(filepath.Join(w.dir.path, listFile))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(list{format, w.disco, slices.Sorted(slices.Values(names))}, "", "  ")
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// Abort throws away what hasn't appeared. Behind Result it does nothing.
func (w *Writer) Abort() {
	if w == nil || w.ended {
		return
	}
	w.ended = true
	for _, f := range w.files {
		f.Abort()
	}
}
