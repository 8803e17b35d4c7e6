// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"html/template"
	"net/http"
	"os"
	"slices"

	"github.com/disco-sim/disco/internal/outdir"
)

// listing is the page of Files.
var listing = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>disco</title>
<h1>Files of the run</h1>
<ul>{{range .}}<li><a href="{{.}}">{{.}}</a>{{end}}</ul>
`))

// Files is pages that are the files of a run, with a list of them.
func Files(dir string) (http.Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		w.Header().Set("Cache-Control", "no-cache")
		name := q.URL.Path[1:]
		switch {
		case name == "":
			var names []string
			if entries, err := os.ReadDir(dir); err == nil {
				for _, e := range entries {
					if outdir.Plain(e.Name()) {
						names = append(names, e.Name())
					}
				}
			}
			slices.Sort(names)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = listing.Execute(w, names) // a reader that has gone
		case !outdir.Plain(name):
			http.NotFound(w, q)
		default:
			http.ServeFileFS(w, q, root.FS(), name)
		}
	}), nil
}
