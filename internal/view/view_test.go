// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/webserver"
)

// write makes a directory as --out does. Each file appears as a whole.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	names := []string{}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		if name != liveFile {
			names = append(names, name)
		}
	}
	list, err := json.Marshal(map[string]any{"format": 1, "files": names})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, listFile), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const head = "figure,of,unit,from_s,to_s,value\n"

func small() map[string]string {
	return map[string]string{"result.json": `{"results": {}}`, "scenario.yml": "a: 1\n",
		"series.csv": head + "rate,,1/s,0,1,5\nrate,,1/s,1,2,\nrate,\"a, b\",1/s,0,1,7\nbusy,c,,0,2,0.5\n"}
}

// TestOpen: what is no output, or a damaged one, is refused with what to do.
func TestOpen(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, dir string, f map[string]string){
		"":                   func(*testing.T, string, map[string]string) {},
		"has no output.json": func(t *testing.T, dir string, f map[string]string) { clear(f) },
		"has no result.json": func(t *testing.T, dir string, f map[string]string) { delete(f, "result.json") },
		"result.json is damaged at byte 14: unexpected EOF: write the directory anew": func(t *testing.T, dir string,
			f map[string]string) {
			f["result.json"] = `{"results": {}`
		},
		"graph.json is damaged":  func(t *testing.T, dir string, f map[string]string) { f["graph.json"] = "" },
		"which is no file of an": func(t *testing.T, dir string, f map[string]string) { f["..json"] = "{}" },
	} {
		dir, files := t.TempDir(), small()
		if change(t, dir, files); len(files) > 0 {
			write(t, dir, files)
		}
		_, err := Open(dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{file: "found a file", file + "x": "found nothing of that name"} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	dir, running := t.TempDir(), small() // a run that goes on has no results yet
	delete(running, "result.json")
	running[liveFile] = `{"state": "running"}`
	write(t, dir, running)
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
}

// get asks the handler.
func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

// TestGuard: only files of the output are read, and only for pages of this server.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	files := small()
	files["link.json"] = ""
	write(t, dir, files)
	outside := filepath.Join(t.TempDir(), "secret.json")
	for path, text := range map[string]string{outside: "secret", filepath.Join(dir, "notes.txt"): "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	h := Handler(&Dir{path: dir})
	for path, want := range map[string]int{"/": 200, "/app.js": 200, "/data/file/result.json": 200, "/data/state": 200,
		"/data/series": 200, "/data/file/notes.txt": 404, "/data/file/link.json": 404,
		"/data/file/..%2Foutput.json": 404,
		"/data/file/%2Fetc%2Fpasswd":  404, "/nothing": 404, "/data/series/values?point=x": 400, "/web/app.js": 404} {
		r, body := get(t, h, path)
		if r.StatusCode != want || strings.Contains(body, "secret") {
			t.Errorf("%s: %d, want %d: %.200s", path, r.StatusCode, want, body)
		}
	}
}

// TestVersions: a file that is the same isn't sent again, one that is another one is, and one that has gone is told of.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, small())
	h := Handler(&Dir{path: dir})
	r, _ := get(t, h, "/data/file/result.json")
	version := r.Header.Get("ETag")
	with := func(r *http.Request) { r.Header.Set("If-None-Match", version) }
	if r, _ := get(t, h, "/data/file/result.json", with); version == "" || r.StatusCode != http.StatusNotModified {
		t.Errorf("%q: %d", version, r.StatusCode)
	}
	files := small()
	files["result.json"] = `{"results": {"more": 1}}`
	write(t, dir, files)
	if r, body := get(t, h, "/data/file/result.json", with); r.StatusCode != http.StatusOK ||
		!strings.Contains(body, "more") {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, body := get(t, h, "/data/state"); !strings.Contains(body, "isn't there any more") {
		t.Error(body)
	}
}

// TestSeries: the index and the values are those of the file, and what is wrong in it is an answer.
func TestSeries(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, small())
	h := Handler(&Dir{path: dir})
	_, body := get(t, h, "/data/series")
	var index summary
	if err := json.Unmarshal([]byte(body), &index); err != nil {
		t.Fatal(err)
	}
	want := summary{Tag: index.Tag, Whole: []figure{{"rate", "1/s", 1}}, Each: []figure{{"rate", "1/s", 1},
		{"busy", "", 1}}}
	if !reflect.DeepEqual(index, want) {
		t.Errorf("%+v", index)
	}
	for query, want := range map[string]string{
		"":             `{"sets":[{"edges":[0,1,2],"items":[{"name":["rate","","1/s"],"values":[5,null]}]}]}`,
		"?figure=rate": `{"sets":[{"edges":[0,1],"items":[{"name":["rate","a, b","1/s"],"values":[7]}]}]}`,
		"?of=c":        `{"sets":[{"edges":[0,2],"items":[{"name":["busy","c",""],"values":[0.5]}]}]}`,
		"?point=3":     `{"sets":[]}`,
	} {
		if _, body := get(t, h, "/data/series/values"+query); body != want {
			t.Errorf("%s: %s", query, body)
		}
	}
	for text, want := range map[string]string{
		"a,b\n":                    "found the columns",
		head + "rate,,1/s,0,1\n":   "wrong number of fields",
		head + "rate,,1/s,0,0,1\n": "want windows one behind",
		head + "rate,,1/s,0,1,x\n": "want a number",
		head + "rate,,1/s,0,NaN,":  "want windows one behind",
		"":                         "its head",
	} {
		files := small()
		files["series.csv"] = text
		write(t, dir, files)
		if r, body := get(t, h, "/data/series/values"); r.StatusCode != http.StatusUnprocessableEntity ||
			!strings.Contains(body, want) {
			t.Errorf("%q: %d %s, want %q", text, r.StatusCode, body, want)
		}
	}
}

// TestPoints: a sweep has the series of each of its points.
func TestPoints(t *testing.T) {
	dir := t.TempDir()
	files := small()
	files["series.csv"] = "point," + head + "1,rate,,1/s,0,1,5\n2,rate,,1/s,0,1,6\n"
	write(t, dir, files)
	h := Handler(&Dir{path: dir})
	if _, body := get(t, h, "/data/series"); !strings.Contains(body, `"points":2`) {
		t.Error(body)
	}
	if _, body := get(t, h, "/data/series/values?point=2"); !strings.Contains(body, `"values":[6]`) {
		t.Error(body)
	}
}

// TestServe: the end of the context ends the server at once, with an answer under way, and all its connections.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	entered, served := make(chan struct{}), make(chan error)
	go func() {
		served <- serve(ctx, listener, webserver.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		})))
	}()
	asked := make(chan error)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		_, err := client.Get(fmt.Sprintf("http://%s/", listener.Addr()))
		asked <- err
	}()
	<-entered
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-asked; err == nil {
		t.Error("the answer has ended as if it were whole")
	}
}
