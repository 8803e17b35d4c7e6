// SPDX-License-Identifier: Apache-2.0

// Package viewrun shows a run that is under way to others: it is the process that a run with --web or --metrics starts
// beside itself, and serves pages over the run's files, and metrics of its processes. docs/live.md has more.
//
// Guarantee: it ends when the run does, and removes what is temporary. It serves the loopback unless somebody has said
// otherwise. Package webserver says who may ask, and how much; no request changes anything.
//
//	func main() { app.MainWith([]app.Command{viewrun.Command(view.Handler)}) }
package viewrun

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/internal/viewproc"
	"github.com/disco-sim/disco/internal/webserver"
)

// shutdownMax is how long a reader of answers may take at the end.
const shutdownMax = time.Second

// Pages makes what serves the pages over the files of a directory.
type Pages func(dir string) (http.Handler, error)

// Command is the hidden command that a run starts.
func Command(pages Pages) app.Command {
	return app.Command{Name: viewproc.Command, Hidden: true,
		Usage: "is what a run starts that is shown while it goes on",
		Run:   func(*app.Call) error { return serve(pages) }}
}

// serve serves a run until it has ended.
func serve(pages Pages) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP) // they are for the run, which ends this process
	conn, begin, err := viewproc.Inherit()
	if err != nil {
		return err
	}
	defer conn.Close()
	if begin.Temporary {
		defer removeDir(begin.Dir)
	}
	r := &run{conn: conn, begin: begin, over: make(chan struct{})}
	defer r.close()
	serving, err := r.open(pages)
	if err != nil {
		refused := &viewproc.Refused{Text: err.Error()}
		_ = conn.Send(&viewproc.Message{Refused: refused}) // who has gone needs no answer
		return nil
	}
	if err := conn.Send(&viewproc.Message{Serving: serving}); err != nil {
		return nil // the run has gone
	}
	for {
		m, err := conn.Receive()
		if err != nil {
			return nil
		}
		r.heed(m)
	}
}

// removeDir removes a directory that a run has made for its files, and nothing else.
func removeDir(dir string) {
	if entries, err := os.ReadDir(dir); err == nil {
		for _, e := range entries {
			if outdir.Plain(e.Name()) {
				_ = os.Remove(filepath.Join(dir, e.Name())) // the system's cleaning takes what is left
			}
		}
	}
	_ = os.Remove(dir)
}

// run is a run that is shown.
type run struct {
	conn    *viewproc.Conn
	begin   *viewproc.Begin
	servers []*http.Server
	over    chan struct{} // closed at the end
	watches sync.WaitGroup
	spans   *spans // nil: none are wanted
}

// open begins to serve.
func (r *run) open(pages Pages) (*viewproc.Serving, error) {
	s := new(viewproc.Serving)
	if r.begin.Trace {
		var err error
		if r.spans, err = newSpans(r.begin.Version); err != nil {
			s.Remarks = append(s.Remarks, "there are no spans: "+err.Error())
		}
	}
	if r.begin.Web != "" {
		var err error
		h := &opened{pages: pages, dir: r.begin.Dir}
		if s.Web, err = r.listen("--web", r.begin.Web, h, s); err != nil {
			return nil, err
		}
	}
	if r.begin.Metrics != "" {
		m := newMetrics(r.begin.PID, r.begin.Version)
		h, err := m.handler()
		if err != nil {
			return nil, err
		}
		if s.Metrics, err = r.listen("--metrics", r.begin.Metrics, h, s); err != nil {
			return nil, err
		}
		s.Metrics += "metrics"
		r.watches.Go(func() { m.watch(r.over) })
	}
	return s, nil
}

// opened serves the pages of a directory as soon as these can be made: a run that only begins has written nothing.
type opened struct {
	pages Pages
	dir   string

	mu      sync.Mutex // guards handler
	handler http.Handler
}

func (o *opened) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	o.mu.Lock()
	var err error
	if o.handler == nil {
		o.handler, err = o.pages(o.dir)
	}
	h := o.handler
	o.mu.Unlock()
	if err != nil {
		w.Header().Set("Refresh", "1")
		http.Error(w, "The run only begins: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, q)
}

// listen serves at an address, and gives its URL.
func (r *run) listen(flag, address string, h http.Handler, s *viewproc.Serving) (string, error) {
	listener, at, err := webserver.Listen(address)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", flag, address, err)
	}
	open := webserver.Open(at)
	if open {
		s.Remarks = append(s.Remarks, fmt.Sprintf("%s %s: everybody who reaches this machine there can read it", flag,
			address))
	}
	names := webserver.Names(address, at)
	if open && flag == "--metrics" {
		names = []string{webserver.AnyName} // those who collect figures know the machine under names of their own
	}
	server := webserver.New(h, names...)
	r.servers = append(r.servers, server)
	go func() { _ = server.Serve(listener) }() // it ends with Shutdown
	return "http://" + at.String() + "/", nil
}

// close ends all servers.
func (r *run) close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownMax)
	defer cancel()
	for _, s := range r.servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // a reader that doesn't read
		}
	}
	close(r.over)
	r.watches.Wait()
	if r.spans != nil {
		r.spans.close()
	}
}

// heed takes what the run says.
func (r *run) heed(m *viewproc.Message) {
	if m.Phase != nil && r.spans != nil {
		r.spans.add(m.Phase)
	}
}
