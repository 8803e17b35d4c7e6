// SPDX-License-Identifier: Apache-2.0

package view

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
	"github.com/disco-sim/disco/internal/outdir"
)

// Files that the view knows.
const (
	listFile   = "output.json"
	liveFile   = "live.json"
	seriesFile = "series.csv"
)

// checked are the files that have JSON.
var checked = []string{outdir.ResultFile, outdir.GraphFile, outdir.OverviewFile}

// Bounds of what is read as a whole.
const (
	listBytesMax = 1 << 20
	liveBytesMax = 1 << 20
	listFormat   = 1
	filesMax     = 1000
)

// Dir is a directory that --out has written. It may change, go and come back at any time; any goroutine may use it.
type Dir struct {
	path   string
	series seriesCache
}

// Open looks at a directory. The error says what stands in the way, and what to do.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: found nothing of that name, want a directory: `run FILE --out %s` makes it", path,
			path)
	case err != nil:
		return nil, fmt.Errorf("%s can't be read: %w", path, errors.Unwrap(err))
	case !info.IsDir():
		return nil, fmt.Errorf("%s: found a file, want the directory that `run FILE --out DIR` has written", path)
	}
	s := d.state()
	if s.Problem != "" {
		return nil, errors.New(s.Problem)
	}
	for _, name := range checked {
		if _, ok := s.Files[name]; ok {
			if err := d.checkJSON(name); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// checkJSON reads a file to its end.
func (d *Dir) checkJSON(name string) error {
	f, err := d.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	decoder := json.NewDecoder(f)
	for depth, tokens := 0, 0; ; tokens++ {
		token, err := decoder.Token()
		switch {
		case err == io.EOF && depth == 0 && tokens > 0:
			return nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("%s is damaged at byte %d: %w: write the directory anew with `run FILE --out %s`",
				filepath.Join(d.path, name), decoder.InputOffset(), err, d.path)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// state is what the directory has: what the page asks for each second.
type state struct {
	Name    string          `json:"name"`
	Files   map[string]file `json:"files"`
	Live    json.RawMessage `json:"live"`    // null: there is none
	Problem string          `json:"problem"` // "": none
}

// file is one version of a file.
type file struct {
	Tag   string `json:"tag"` // another one in each version
	Bytes int64  `json:"bytes"`
}

// state looks at the directory.
func (d *Dir) state() *state {
	s := &state{Name: filepath.Base(d.path), Files: map[string]file{}}
	if full, err := filepath.Abs(d.path); err == nil {
		s.Name = filepath.Base(full)
	}
	names, err := d.names()
	root, rootErr := os.OpenRoot(d.path)
	if rootErr == nil {
		defer root.Close()
		for _, name := range append(names, liveFile) {
			if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
				s.Files[name] = file{tag(info), info.Size()}
			}
		}
	}
	running := false
	if _, ok := s.Files[liveFile]; ok {
		s.Live, running = d.live()
	}
	_, done := s.Files[outdir.ResultFile]
	switch {
	case rootErr != nil:
		s.Problem = d.path + " isn't there any more: write it anew with `run FILE --out " + d.path + "`"
	case err != nil && !running:
		s.Problem = err.Error()
	case !done && !running:
		s.Problem = d.path + " has no result.json: its run was killed before it ended, or is writing it just now: " +
			"wait for it, or write it anew with `run FILE --out " + d.path + "`"
	}
	return s
}

// live is live.json as it is, and whether it says that the run goes on.
func (d *Dir) live() (text json.RawMessage, running bool) {
	text, err := infile.Read(filepath.Join(d.path, liveFile), infile.Kind{Name: "the state of a run",
		BytesMax: liveBytesMax})
	var known struct {
		State string `json:"state"`
	}
	if err != nil || json.Unmarshal(text, &known) != nil {
		return nil, false // it is written anew each second
	}
	return text, known.State == "running"
}

// names are those of the files that the output lists.
func (d *Dir) names() ([]string, error) {
	path := filepath.Join(d.path, listFile)
	text, err := infile.Read(path, infile.Kind{Name: "the list of an output's files", BytesMax: listBytesMax})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s, so no run has written it: name the DIR of `run FILE --out DIR`", d.path,
			listFile)
	}
	if err != nil {
		return nil, err
	}
	var l struct {
		Form  int      `json:"format"`
		Files []string `json:"files"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: write the directory anew with `run FILE --out %s`", path, err,
			d.path)
	}
	if l.Form != listFormat {
		return nil, fmt.Errorf("%s: found format %d, want %d: use the version of disco that has written it", path,
			l.Form, listFormat)
	}
	if len(l.Files) > filesMax {
		return nil, fmt.Errorf("%s lists %d files, want at most %d", path, len(l.Files), filesMax)
	}
	for _, name := range l.Files {
		if !plain(name) {
			return nil, fmt.Errorf("%s lists %.100q, which is no file of an output", path, name)
		}
	}
	return l.Files, nil
}

// plain reports whether a name is one of a file in the directory itself, of a type that outputs have.
func plain(name string) bool {
	if name == "" || len(name) > 120 || name[0] == '.' || contentType(name) == "" {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// contentType is what a browser is to take a file for; "": no output has such files.
func contentType(name string) string {
	switch filepath.Ext(name) {
	case ".json":
		return "application/json"
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".yml", ".txt":
		return "text/plain; charset=utf-8"
	case ".parquet":
		return "application/vnd.apache.parquet"
	}
	return ""
}

// open opens one of the files that the output lists.
func (d *Dir) open(name string) (*os.File, error) {
	if name != liveFile && name != listFile {
		names, err := d.names()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s has no file %.100q", d.path, name)
		}
	}
	root, err := os.OpenRoot(d.path) // a link in it leads nowhere else
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: found no regular file", filepath.Join(d.path, name))
	}
	if err != nil {
		return nil, err
	}
	return root.Open(name)
}

// tag tells versions of a file apart: each is a file of its own that takes the place of the one before.
func tag(info fs.FileInfo) string {
	return fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
}
