// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed web
var web embed.FS

// Handler is the view of a directory. It is served by a server of package webserver, which says who may ask.
func Handler(d *Dir) http.Handler {
	mux := http.NewServeMux()
	for name, page := range pages() {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) { page.serve(w, r) })
		if name == "index.html" {
			mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { page.serve(w, r) })
		}
	}
	mux.HandleFunc("/data/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.state()) })
	mux.HandleFunc("/data/series", d.serveIndex)
	mux.HandleFunc("/data/series/values", d.serveValues)
	mux.HandleFunc("/data/file/{name}", d.serveFile)
	return mux
}

// page is a file of the view itself.
type page struct {
	name, tag string
	text      []byte
}

func pages() map[string]page {
	entries, err := web.ReadDir("web")
	if err != nil {
		panic(err) // they are part of the program
	}
	all := map[string]page{}
	for _, e := range entries {
		text, err := web.ReadFile("web/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(text)
		all[e.Name()] = page{e.Name(), fmt.Sprintf(`"%x"`, sum.Sum64()), text}
	}
	return all
}

func (p page) serve(w http.ResponseWriter, r *http.Request) {
	kind := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(p.name)]
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", p.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.text))
}

// serveFile is a file of the output as it is.
func (d *Dir) serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind := contentType(name)
	if !plain(name) {
		http.Error(w, fmt.Sprintf("found %.100q, want a file of the output", name), http.StatusNotFound)
		return
	}
	f, info, ok := d.openFor(w, name)
	if !ok {
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", kind)
	w.Header().Set("ETag", strconv.Quote(tag(info)))
	if ext := path.Ext(name); ext == ".csv" || ext == ".parquet" {
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	}
	http.ServeContent(w, r, "", time.Time{}, f)
}

// openFor opens a file for an answer, or makes the answer that it isn't there.
func (d *Dir) openFor(w http.ResponseWriter, name string) (*os.File, os.FileInfo, bool) {
	f, err := d.open(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return nil, nil, false
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil, nil, false
	}
	return f, info, true
}

// answer writes JSON.
func answer(w http.ResponseWriter, x any) {
	text, err := json.Marshal(x)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// serveIndex says which time series there are.
func (d *Dir) serveIndex(w http.ResponseWriter, r *http.Request) {
	f, info, ok := d.openFor(w, seriesFile)
	if !ok {
		return
	}
	defer f.Close()
	x, err := d.series.of(r.Context(), f, tag(info))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("ETag", strconv.Quote(tag(info)))
	answer(w, x.summary)
}

// serveValues has the values of time series: figure=NAME of all boxes and links, of=ID all figures of one, or, without
// either, all of the whole; point=N of that point of a sweep.
func (d *Dir) serveValues(w http.ResponseWriter, r *http.Request) {
	f, info, ok := d.openFor(w, seriesFile)
	if !ok {
		return
	}
	defer f.Close()
	version := strconv.Quote(tag(info))
	w.Header().Set("ETag", version)
	if r.Header.Get("If-None-Match") == version {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	x, err := d.series.of(r.Context(), f, tag(info))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	query := r.URL.Query()
	point := 0
	if text := query.Get("point"); text != "" {
		if point, err = strconv.Atoi(text); err != nil {
			http.Error(w, fmt.Sprintf("point: found %.100q, want a number", text), http.StatusBadRequest)
			return
		}
	}
	text, err := x.values(f, choice{point: point, figure: query.Get("figure"), of: query.Get("of")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.Copy(w, strings.NewReader(text))
}
