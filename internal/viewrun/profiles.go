// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/selfprofile"
)

// profiles serves profiles of the run's processes at /debug/pprof/PROCESS/KIND, as `go tool pprof` fetches them;
// PROCESS is launcher or worker-N. Those of other machines aren't there.
type profiles struct{ metrics *metrics }

const (
	profileSeconds = 30 // of a CPU profile that doesn't say for how long, as everywhere in Go
	profileMax     = 256 << 20
	profileAnswer  = time.Minute // beyond the seconds
)

// profileKinds are the kinds that the index lists.
var profileKinds = []string{"profile", "heap", "allocs", "goroutine", "threadcreate", "block", "mutex"}

func (p *profiles) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	path := strings.Trim(strings.TrimPrefix(q.URL.Path, "/debug/pprof"), "/")
	process, kind, ok := strings.Cut(path, "/")
	if path == "" {
		p.index(w)
		return
	}
	if !ok { // as a single process has them
		process, kind = "launcher", path
	}
	pid, ok := p.metrics.processes()[process]
	if !ok {
		http.Error(w, fmt.Sprintf("There is no process %q of this run here: /debug/pprof/ lists those there are.",
			process), http.StatusNotFound)
		return
	}
	request, wait := kind, profileAnswer
	if kind == "profile" {
		seconds := profileSeconds
		if text := q.URL.Query().Get("seconds"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > selfprofile.SecondsMax {
				http.Error(w, fmt.Sprintf("seconds: found %q, want 1 to %d.", text, selfprofile.SecondsMax),
					http.StatusBadRequest)
				return
			}
			seconds = n
		}
		request, wait = fmt.Sprint(selfprofile.CPU, " ", seconds), wait+time.Duration(seconds)*time.Second
	}
	p.fetch(w, q, pid, process+"-"+kind, request, wait)
}

// fetch passes a profile on. A reader that goes ends it.
func (p *profiles) fetch(w http.ResponseWriter, q *http.Request, pid int, name, request string, wait time.Duration) {
	conn, err := (&net.Dialer{}).DialContext(q.Context(), "unix", selfprofile.Address(pid))
	if err != nil {
		http.Error(w, "The process gives no profiles: it has ended, or is of a run without --metrics.",
			http.StatusNotFound)
		return
	}
	defer conn.Close()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // that of the server would end the request's context
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-q.Context().Done():
			_ = conn.Close()
		case <-done:
		}
	}()
	_ = conn.SetDeadline(time.Now().Add(wait))
	from := bufio.NewReader(io.LimitReader(conn, profileMax))
	if _, err = io.WriteString(conn, request+"\n"); err != nil {
		http.Error(w, "The process has ended.", http.StatusBadGateway)
		return
	}
	head, err := from.ReadString('\n')
	switch {
	case err != nil:
		http.Error(w, "The process has ended, or doesn't answer.", http.StatusBadGateway)
	case head != "ok\n":
		http.Error(w, strings.TrimSpace(strings.TrimPrefix(head, "error: ")), http.StatusConflict)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.pprof"`)
		_, _ = io.Copy(w, from)
	}
}

// index lists all processes and kinds.
func (p *profiles) index(w http.ResponseWriter) {
	all := p.metrics.processes()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	fmt.Fprint(w, "<!doctype html><html lang=\"en\"><title>Profiles</title><h1>Profiles of the run's processes</h1>"+
		"<p>go tool pprof http://…/debug/pprof/worker-0/profile?seconds=5</p><ul>")
	for _, process := range processNames(all) {
		fmt.Fprintf(w, "<li>%s (process %d):", html.EscapeString(process), all[process])
		for _, kind := range profileKinds {
			fmt.Fprintf(w, " <a href=\"/debug/pprof/%s/%s\">%s</a>", process, kind, kind)
		}
		fmt.Fprint(w, "</li>")
	}
	fmt.Fprint(w, "</ul></html>")
}
