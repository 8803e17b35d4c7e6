// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/webserver"
	"github.com/disco-sim/disco/metastore"
)

// Options are what a door serves.
type Options struct {
	Home    metastore.Backend
	Root    string // the absolute path of the home's group
	Results string // and that of its parts
	// Site gives the site that has an experiment now (before is 0), or one that had it before (1 is the last one): what
	// of it isn't home is read there. Its error is that there is none, or that it can't be reached.
	Site func(ctx context.Context, id string, before int) (Site, error)
	TLS  *tls.Config // nil: none, which is for the loopback
	Peer Peer        // who has a certificate; nil without TLS
}

// Site is where an experiment is now.
type Site struct {
	Backend metastore.Backend
	Root    string // the absolute path of its group
	ID      string // the experiment's there
}

// siteTime bounds what is read at a site, so that one that doesn't answer keeps nobody from what is home.
const siteTime = 3 * time.Second

// Server serves a home.
type Server struct {
	o    Options
	http *http.Server
	l    net.Listener
	At   netip.AddrPort // where it listens

	root, results *regexp.Regexp // those of Options in a text
}

// inText finds a path of the store in a text, as a whole or in front of a longer one.
func inText(path string) *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(path) + `([^\w.-]|$)`)
}

// Listen opens the port, HOST:PORT; port 0 is one that is free. Serve answers there.
func Listen(address string, o Options) (*Server, error) {
	l, at, err := webserver.Listen(address)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, At: at, l: l, root: inText(o.Root), results: inText(o.Results)}
	if o.TLS != nil {
		s.l = tls.NewListener(l, o.TLS)
	}
	names := webserver.Names(address, at)
	if o.TLS != nil {
		names = append(names, webserver.AnyName) // who asks has a certificate: no browser does it for somebody
	}
	s.http = &http.Server{Handler: s.guard(names), ReadHeaderTimeout: readTime, ReadTimeout: readTime,
		WriteTimeout: answerTime, IdleTimeout: answerTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	return s, nil
}

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends it, and everything that it answers.
func (s *Server) Close() error { return errors.Join(s.http.Close()) }

// guard refuses what no client asks.
func (s *Server) guard(names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, text string) { http.Error(w, text, status) }
		switch {
		case !webserver.Allowed(r.Host, names):
			refuse(http.StatusMisdirectedRequest, fmt.Sprintf("found the host %.100q, want an address, localhost, or "+
				"the name that the door was started with", r.Host))
		case r.Method != http.MethodPost || r.URL.Path != "/v1":
			refuse(http.StatusNotFound, "this is a door for experiments: `disco-run list --door HOST:PORT` asks it")
		case r.Header.Get(header) != version:
			refuse(http.StatusBadRequest, fmt.Sprintf("found the protocol %.20q, want %s: take a program of the same "+
				"version as the door's", r.Header.Get(header), version))
		default:
			s.serve(w, r, refuse)
		}
	})
}

// serve answers a request: first of all it finds out who asks.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, refuse func(status int, text string)) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), answerTime/2, errors.New("the home's store doesn't answer"))
	defer cancel()
	c, err := s.caller(ctx, r)
	var a reply
	if err == nil {
		var ask request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestMost)).Decode(&ask); err != nil {
			refuse(http.StatusBadRequest, fmt.Sprintf("the request can't be read: %.300v", err))
			return
		}
		a, err = s.answer(ctx, c, &ask)
	}
	if err != nil {
		a = reply{Error: s.failed(err)}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // who asked has gone
}

// failed is an error as it is sent: what lies where in the home's store is named as callers see it.
func (s *Server) failed(err error) *failure {
	f := failed(err)
	f.Text = s.results.ReplaceAllString(f.Text, "/"+Results+"$1")
	f.Text = s.root.ReplaceAllString(f.Text, "/"+Group+"$1")
	return f
}

// answer does what a caller asks.
func (s *Server) answer(ctx context.Context, c *caller, ask *request) (r reply, err error) {
	switch ask.Do {
	case "who":
		return reply{User: c.name}, nil
	case "commit":
		return r, s.commit(ctx, c, ask)
	}
	return s.read(ctx, ask)
}

// real is the path in the home's store of one that a client names, and what it is below the group; parts can't be
// written.
func (s *Server) real(path string) (real, key string, parts bool, err error) {
	for _, tree := range []struct{ seen, is string }{{"/" + Group, s.o.Root}, {"/" + Results, s.o.Results}} {
		if rest, ok := below(path, tree.seen); ok {
			real, err = metastore.Path(tree.is, rest)
			if err != nil {
				err = fmt.Errorf("%w: %w", metastore.ErrDenied, err)
			}
			return strings.TrimSuffix(real, "/"), rest, tree.seen == "/"+Results, err
		}
	}
	return "", "", false, fmt.Errorf("%w: found the path %.200q, want one below /%s", metastore.ErrDenied, path, Group)
}

// read reads a node, its children, or all below it.
func (s *Server) read(ctx context.Context, ask *request) (r reply, err error) {
	path, key, parts, err := s.real(ask.Path)
	if err != nil {
		return r, err
	}
	switch ask.Do {
	case "get":
		n, err := s.o.Home.Get(ctx, path)
		if errors.Is(err, metastore.ErrNoNode) && !parts {
			n, err = s.getAtSite(ctx, key, err)
		}
		n.Value = s.shown(path, n.Value)
		return reply{Node: &n}, err
	case "children":
		r.Names, err = s.o.Home.Children(ctx, path)
		return r, err
	case "tree":
		leaves, err := s.o.Home.Tree(ctx, path)
		if err != nil {
			return r, err
		}
		for _, l := range leaves {
			if rest, ok := below(l.Path, path); ok {
				l.Value = s.shown(l.Path, l.Value)
				l.Path = strings.TrimSuffix(ask.Path+"/"+rest, "/")
				r.Leaves = append(r.Leaves, l)
			}
		}
		if id, ok := strings.CutPrefix(key, "fleet/pieces/"); ok && !parts && !strings.Contains(id, "/") {
			r.Leaves = s.piecesAtSite(ctx, id, ask.Path, r.Leaves)
		}
		return r, nil
	}
	return r, fmt.Errorf("found the request %.40q, want get, children, tree or commit", ask.Do)
}

// getAtSite reads what isn't home: pieces, reports and logs of what a site has.
func (s *Server) getAtSite(ctx context.Context, key string, gone error) (n metastore.Node, err error) {
	names := strings.Split(key, "/")
	at := 2 // of the experiment's id
	switch {
	case len(names) == 4 && names[0] == "fleet" && (names[1] == "pieces" || names[1] == "logs"):
	case len(names) == 5 && names[0] == "fleet" && names[1] == "reports":
		at = 3
	default:
		return n, gone
	}
	for before := range logSites {
		if before > 0 && names[1] != "logs" { // what is there of it doesn't count any more
			break
		}
		if n, err = s.getAt(ctx, names, at, before); err == nil {
			return n, nil
		}
	}
	return metastore.Node{}, gone
}

// logSites is at how many sites a log is looked for: those that have the experiment now, or had it last.
const logSites = 3

// getAt reads the key of names, of which one is the experiment's id, at a site.
func (s *Server) getAt(ctx context.Context, names []string, at, before int) (n metastore.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	site, err := s.o.Site(ctx, names[at], before)
	if err != nil {
		return n, err
	}
	there := slices.Clone(names)
	there[at] = site.ID
	path, err := metastore.Path(site.Root, strings.Join(there, "/"))
	if err == nil {
		n, err = site.Backend.Get(ctx, path)
	}
	if err == nil && names[1] == "pieces" && finished(n.Value) {
		err = metastore.ErrNoNode
	}
	return n, err
}

// piecesAtSite adds the pieces that a site has and that haven't finished at home. What has finished there, and isn't
// home yet, isn't shown: its part isn't there.
func (s *Server) piecesAtSite(ctx context.Context, id, seen string, home []metastore.Leaf) []metastore.Leaf {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	site, err := s.o.Site(ctx, id, 0)
	if err != nil {
		return home
	}
	path, err := metastore.Path(site.Root, "fleet/pieces/"+site.ID)
	if err != nil {
		return home
	}
	there, err := site.Backend.Tree(ctx, path)
	if err != nil {
		return home
	}
	all := map[string]metastore.Leaf{}
	for _, l := range there {
		if rest, ok := below(l.Path, path); ok && !finished(l.Value) {
			l.Path = strings.TrimSuffix(seen+"/"+rest, "/")
			all[l.Path] = l
		}
	}
	for _, l := range home {
		if _, also := all[l.Path]; !also || finished(l.Value) {
			all[l.Path] = l
		}
	}
	found := make([]metastore.Leaf, 0, len(all))
	for _, l := range all {
		found = append(found, l)
	}
	slices.SortFunc(found, func(a, b metastore.Leaf) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// finished tells whether a value in the store is that of a piece that has FINISHED.
func finished(value []byte) bool {
	i := bytes.IndexByte(value, '{')
	if i < 0 {
		return false
	}
	var p struct {
		State fleet.PieceState `json:"state"`
	}
	err := json.NewDecoder(bytes.NewReader(value[i:])).Decode(&p)
	return err == nil && p.State == fleet.Finished
}

// commit commits what people may write.
func (s *Server) commit(ctx context.Context, c *caller, ask *request) error {
	conds, ops := slices.Clone(ask.Conds), make([]metastore.Op, 0, len(ask.Ops))
	for i := range conds {
		_, key, parts, err := s.real(conds[i].Path)
		if err != nil || parts {
			return errors.Join(err, refused(conds[i].Path))
		}
		conds[i].Path = key
	}
	for _, op := range ask.Ops {
		real, key, parts, err := s.real(op.Path)
		if err != nil || parts {
			return errors.Join(err, refused(op.Path))
		}
		if !c.mayWrite(real, key, op.Do) {
			return c.refused(real, key, op.Do)
		}
		ops = append(ops, metastore.Op{Path: key, Do: op.Do, Value: op.Value})
	}
	if err := s.checked(ctx, c, conds, ops); err != nil {
		return seen(err, "")
	}
	for i := range conds {
		conds[i].Path = s.o.Root + "/" + conds[i].Path
	}
	for i := range ops {
		ops[i].Path = s.o.Root + "/" + ops[i].Path
	}
	return seen(s.o.Home.Commit(ctx, conds, ops), s.o.Root+"/")
}

// seen is a conflict about a path as callers see it; root is before the key.
func seen(err error, root string) error {
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) {
		c := conflict.Cond
		if key, ok := strings.CutPrefix(c.Path, root); ok {
			c.Path = "/" + Group + "/" + key
		}
		return &metastore.ConflictError{Cond: c}
	}
	return err
}

func refused(path string) error {
	return fmt.Errorf("%w: %.200s isn't written by people", metastore.ErrDenied, path)
}

// mayWrite tells whether people write a key so. Where it is known who writes, some keys have that name in them.
func mayWrite(key string, do metastore.OpKind, user string) bool {
	names := strings.Split(key, "/")
	if len(names) < 2 || names[0] != "fleet" {
		return false
	}
	create, set := do == metastore.Create, do == metastore.Set || do == metastore.Create
	own := len(names) == 3
	if user != "" {
		own = len(names) == 4 && names[2] == user
	}
	switch what := names[1]; {
	case len(names) == 2:
		return what == "format" && create || what == "changed" && set
	case what == "submitted":
		return own && create
	case what == "experiments":
		return len(names) == 4 && (names[3] == "spec" && create || names[3] == "wish" && set)
	case what == "users": // how much a user has submitted
		return own && set
	case what == "blobs":
		return len(names) <= 4 && set
	case what == "audit":
		return own && (create || do == metastore.Delete)
	}
	return false
}
