// SPDX-License-Identifier: Apache-2.0

// Package viewrun shows a run that is under way to others: it is the process that a run with --web or --metrics starts
// beside itself, and serves pages over the run's files, and metrics of its processes. docs/live.md has more.
//
// Guarantee: it ends when the run does, and removes what is temporary. It serves the loopback unless somebody has said
// otherwise; a request whose Host is the name of another machine is refused there, so that a page from elsewhere can't
// ask by way of a browser (DNS rebinding). Requests have limits of time and size, and no request changes anything.
//
//	func main() { app.MainWith([]app.Command{viewrun.Command(view.Handler)}) }
package viewrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/internal/viewproc"
)

// Limits of a server.
const (
	headMax     = 10 * time.Second
	idleMax     = 2 * time.Minute
	headBytes   = 16 << 10
	shutdownMax = time.Second
)

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
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", flag, address, explained(err))
	}
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	local := at.Addr().Unmap().IsLoopback()
	if !local {
		s.Remarks = append(s.Remarks, fmt.Sprintf("%s %s: everybody who reaches this machine there can read it", flag,
			address))
	}
	server := &http.Server{Handler: guarded(h, local), ReadHeaderTimeout: headMax, ReadTimeout: headMax,
		IdleTimeout: idleMax, MaxHeaderBytes: headBytes}
	r.servers = append(r.servers, server)
	go func() { _ = server.Serve(listener) }() // it ends with Shutdown
	return "http://" + at.String() + "/", nil
}

// explained says what to do about an address that can't be listened at.
func explained(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.New("this port is in use: name another one, or 0 for any that is free")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return errors.New("this machine has no such address")
	case errors.Is(err, syscall.EACCES):
		return errors.New("ports below 1024 are for the system: name another one")
	}
	return err
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

// guarded refuses what no reader asks for.
func guarded(h http.Handler, local bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case q.Method != http.MethodGet && q.Method != http.MethodHead:
			http.Error(w, "want GET or HEAD", http.StatusMethodNotAllowed)
		case local && !localHost(q.Host):
			http.Error(w, "want the address that the run has printed", http.StatusMisdirectedRequest)
		default:
			h.ServeHTTP(w, q)
		}
	})
}

// localHost reports whether a Host can only mean this machine.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
