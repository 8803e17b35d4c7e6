// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// served is a door with a home and a site.
type served struct {
	*testing.T
	home, site   *fleet.Client
	homeAt, away *mem.Server
	at           string
}

// serve serves a home whose experiments all are at one site, under id + "_1".
func serve(t *testing.T, tlsDir string) *served {
	s := &served{T: t, homeAt: mem.NewServer(time.Minute), away: mem.NewServer(time.Minute)}
	open := func(m *mem.Server) *fleet.Client {
		store, err := metastore.New(t.Context(), m.NewClient(), metastore.Options{Group: "g", Base: fleet.Base()})
		s.must(err)
		t.Cleanup(func() { _ = store.Close() })
		c, err := fleet.New(t.Context(), store, fleet.Options{By: "door"})
		s.must(err)
		return c
	}
	s.home, s.site = open(s.homeAt), open(s.away)
	security := plain
	if tlsDir != "" {
		security = Security{Folder: tlsDir}
	}
	return s.serves(security)
}

// plain is without certificates.
var plain = Security{Insecure: 1}

// serves opens the door.
func (s *served) serves(security Security) *served {
	config, peer, err := security.Serves("127.0.0.1:0")
	s.must(err)
	there := s.away.NewClient()
	server, err := Listen("127.0.0.1:0", Options{Home: s.homeAt.NewClient(), Root: "/g", Results: "/g-parts",
		TLS: config, Peer: peer, Site: func(_ context.Context, id string, before int) (Site, error) {
			if before == 1 { // it had it before
				return Site{Backend: there, Root: "/g", ID: fleet.SiteID(id, 7)}, nil
			}
			return Site{Backend: there, Root: "/g", ID: fleet.SiteID(id, 1)}, nil
		}})
	s.must(err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }()
	s.Cleanup(func() { s.must(server.Close()); s.must(<-ended) })
	s.at = server.At.String()
	return s
}

func (s *served) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// client is the fleet's client of somebody who asks the door.
func (s *served) client(security Security) (*fleet.Client, *Client) {
	s.Helper()
	b, err := Dial(s.at, security)
	s.must(err)
	s.must(b.Who(s.Context()))
	store, err := metastore.New(s.Context(), b, metastore.Options{Group: Group, Existing: true})
	s.must(err)
	s.Cleanup(func() { _ = store.Close() })
	c, err := fleet.New(s.Context(), store, fleet.Options{By: "ann", From: "a test"})
	s.must(err)
	return c, b
}

func sent(key string) *fleet.Submission {
	return &fleet.Submission{Key: key, Name: "shop", User: "ann", Version: "v1", Priority: fleet.Normal,
		Steps: []fleet.SubmittedStep{{Step: fleet.Step{File: "shop.yml", Points: make([][]string, 1), Replications: 3,
			Workers: 1}, Scenario: []byte("model: x\n"), Attached: []fleet.File{{Name: "big",
			Data: make([]byte, 2_000_000)}}}}}
}

// People submit and wish over a door as they do with a store, and see what a site has as if it were home: but not what
// has finished there and isn't home yet.
func TestDoorway(t *testing.T) {
	s := serve(t, "")
	c, _ := s.client(plain)
	id, duplicate, err := c.Submit(t.Context(), sent("k"))
	if err != nil || duplicate {
		t.Fatalf("found %v, %v", duplicate, err)
	}
	if again, duplicate, err := c.Submit(t.Context(), sent("k")); again != id || !duplicate || err != nil {
		t.Errorf("found %s, %v, %v", again, duplicate, err)
	}
	used := (*fleet.KeyTakenError)(nil)
	other := sent("k")
	other.Name = "another"
	if _, _, err := c.Submit(t.Context(), other); !errors.As(err, &used) {
		t.Errorf("found %v", err)
	}
	if w, err := c.Pause(t.Context(), id, "a test"); err != nil || w.Number != 2 {
		t.Errorf("found %+v, %v", w, err)
	}
	e, err := s.home.Show(t.Context(), id)
	if err != nil || e.Wish.Want != fleet.WantPause || e.Wish.By != "ann" || len(e.Malformed) > 0 {
		t.Fatalf("found %+v, %v", e, err)
	}
	taken := map[fleet.PieceID]fleet.Piece{{Replication: 1}: {State: fleet.Finished, Attempt: 1,
		Kept: &fleet.Kept{Place: "x", Hash: "h"}}}
	s.must(s.site.Adopt(t.Context(), e.Spec, *e.Wish, fleet.Home{ID: id, Epoch: 1, Door: "d"}, taken, s.home.Blob))
	there := fleet.SiteID(id, 1)
	_, err = s.site.MovePieces(t.Context(), []fleet.Move{{ID: there, To: fleet.Piece{State: fleet.Dispatched,
		Attempt: 1, Gang: []fleet.Server{{Name: "m-0", Member: "m", Incarnation: "1"}}}}})
	s.must(err)
	s.must(s.site.PutReport(t.Context(), "m", there, fleet.PieceID{}, fleet.Report{Attempt: 1, Number: 1,
		State: fleet.Running, Progress: fleet.Progress{Now: 7}}))
	s.must(s.site.PutLog(t.Context(), there, fleet.AttemptID{Attempt: 1}, []byte("what it wrote")))
	older, second := fleet.SiteID(id, 7), fleet.AttemptID{PieceID: fleet.PieceID{Replication: 1}, Attempt: 1}
	s.must(s.site.Adopt(t.Context(), e.Spec, *e.Wish, fleet.Home{ID: id, Epoch: 7, Door: "d"},
		map[fleet.PieceID]fleet.Piece{{Replication: 2}: {State: fleet.Running, Attempt: 1}}, s.home.Blob))
	s.must(s.site.PutLog(t.Context(), older, second, []byte("before")))
	s.must(s.site.PutLog(t.Context(), older, fleet.AttemptID{Attempt: 1}, []byte("older")))
	if text, err := c.Log(t.Context(), id, second); err != nil || text != "before" {
		t.Errorf("the log of a site before: found %q, %v", text, err)
	}
	if p, err := c.Piece(t.Context(), id, fleet.PieceID{Replication: 2}); err != nil || p.State != 0 {
		t.Errorf("a piece of a site before is shown: %+v, %v", p, err)
	}
	pieces, malformed, err := c.Pieces(t.Context(), id)
	if err != nil || len(malformed) > 0 || len(pieces) != 1 || pieces[fleet.PieceID{}].State != fleet.Dispatched {
		t.Errorf("found %v, %v, %v", pieces, malformed, err)
	}
	if p, err := c.Piece(t.Context(), id, fleet.PieceID{}); err != nil || p.Attempt != 1 {
		t.Errorf("found %+v, %v", p, err)
	}
	if p, err := c.Piece(t.Context(), id, fleet.PieceID{Replication: 1}); err != nil || p.State != 0 {
		t.Errorf("what isn't home is shown: %+v, %v", p, err)
	}
	if r, err := c.Report(t.Context(), "m", id, fleet.PieceID{}); err != nil || r == nil || r.Report.Progress.Now != 7 {
		t.Errorf("found %+v, %v", r, err)
	}
	if text, err := c.Log(t.Context(), id, fleet.AttemptID{Attempt: 1}); err != nil || text != "what it wrote" {
		t.Errorf("found %q, %v", text, err)
	}
	all, err := c.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("found %v, %v", all, err)
	}
}

// What people don't write is refused, and so are other keys than the home's, sessions, and what is no request.
func TestRefuses(t *testing.T) {
	s := serve(t, "")
	c, b := s.client(plain)
	id, _, err := c.Submit(t.Context(), sent("k"))
	s.must(err)
	value := []byte(`{"x":1}`)
	for _, op := range []metastore.Op{
		{Path: "/home/fleet/experiments/" + id + "/status", Do: metastore.Set, Value: value},
		{Path: "/home/fleet/experiments/" + id + "/route", Do: metastore.Set, Value: value},
		{Path: "/home/fleet/experiments/" + id + "/spec", Do: metastore.Set, Value: value},
		{Path: "/home/fleet/experiments/" + id + "/wish", Do: metastore.Delete},
		{Path: "/home/fleet/experiments", Do: metastore.DeleteTree},
		{Path: "/home/fleet/pieces/" + id + "/0.0.0", Do: metastore.Set, Value: value},
		{Path: "/home/fleet/door/candidates/x", Do: metastore.Create, Value: value},
		{Path: "/home/fleet/blobs/x", Do: metastore.DeleteTree},
		{Path: "/home/.disco", Do: metastore.Set, Value: value},
		{Path: "/home-parts/x", Do: metastore.Set, Value: value},
		{Path: "/g/fleet/changed", Do: metastore.Set, Value: value},
		{Path: "/other/fleet/changed", Do: metastore.Set, Value: value},
	} {
		if err := b.Commit(t.Context(), nil, []metastore.Op{op}); !errors.Is(err, metastore.ErrDenied) {
			t.Errorf("%v %s: found %v", op.Do, op.Path, err)
		}
	}
	if err := b.Commit(t.Context(), []metastore.Cond{{Path: "/home-parts/x", Is: metastore.Exists}},
		[]metastore.Op{{Path: "/home/fleet/changed", Do: metastore.Set, Value: value}}); !errors.Is(err,
		metastore.ErrDenied) {
		t.Errorf("a condition about parts: found %v", err)
	}
	for _, path := range []string{"/", "/g", "/homes", "/home/../g", "relative"} {
		if _, err := b.Tree(t.Context(), path); !errors.Is(err, metastore.ErrDenied) {
			t.Errorf("reading %s: found %v", path, err)
		}
	}
	if _, err := b.Session(t.Context()); !errors.Is(err, metastore.ErrDenied) {
		t.Errorf("a session: found %v", err)
	}
	if _, err := b.Get(t.Context(), "/home/fleet/none"); !errors.Is(err, metastore.ErrNoNode) {
		t.Errorf("found %v", err)
	}
	for _, q := range []struct {
		method, path, host, version, body string
		want                              int
	}{
		{"POST", "/v1", "", version, `{"do":"get","path":"/home/.disco"}`, 200},
		{"GET", "/v1", "", version, "", 404}, {"POST", "/", "", version, "{}", 404},
		{"POST", "/v1", "evil.example", version, "{}", 421}, {"POST", "/v1", "", "", "{}", 400},
		{"POST", "/v1", "", "2", "{}", 400}, {"POST", "/v1", "", version, "{", 400},
		{"POST", "/v1", "", version, `{"path":"` + strings.Repeat("x", requestMost) + `"}`, 400},
	} {
		r, err := http.NewRequestWithContext(t.Context(), q.method, "http://"+s.at+q.path, strings.NewReader(q.body))
		s.must(err)
		r.Host = q.host
		if q.version != "" {
			r.Header.Set(header, q.version)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		s.must(err)
		_ = answer.Body.Close()
		if answer.StatusCode != q.want {
			t.Errorf("%s %s %s %q: status %d, want %d", q.method, q.path, q.host, q.version, answer.StatusCode, q.want)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A door with certificates answers who has one of the same authority, and nobody else; without any it is for the
// loopback.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ours, mine, foreign := filepath.Join(dir, "ours"), filepath.Join(dir, "mine"), filepath.Join(dir, "foreign")
	for _, name := range []string{ours, foreign} {
		if err := certs.Init(name, certs.Period(30)); err != nil {
			t.Fatal(err)
		}
	}
	stranger := filepath.Join(dir, "stranger")
	for out, authority := range map[string]string{mine: ours, stranger: foreign} {
		if err := certs.Issue(authority, out, []string{"127.0.0.1"}, certs.Period(30)); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, mine)
	c, _ := s.client(Security{Folder: mine})
	if all, err := c.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("found %v, %v", all, err)
	}
	for _, folder := range []string{"", stranger} {
		security := plain
		if folder != "" {
			security = Security{Folder: folder}
		}
		b, err := Dial(s.at, security)
		s.must(err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := b.Get(ctx, "/home/.disco"); err == nil {
			t.Errorf("%q: it is answered", folder)
		}
		cancel()
		_ = b.Close()
	}
	for _, wrong := range []struct {
		address  string
		security Security
		want     string
	}{
		{"127.0.0.1:7443", Security{}, "want the folder that `certs issue` made, or, on a loopback"},
		{"10.0.0.9:7443", plain, "--insecure twice means it"},
		{"10.0.0.9:7443", Security{Insecure: 2, Tokens: true}, "for everybody to read"},
		{"127.0.0.1:7443", Security{Insecure: 1, Folder: mine}, "want one of them"},
		{"nothing", plain, "want HOST:PORT"},
	} {
		if _, _, err := wrong.security.Serves(wrong.address); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%+v: found %v, want %q", wrong, err, wrong.want)
		}
	}
	if _, _, err := (&Security{Insecure: 2}).Serves("10.0.0.9:7443"); err != nil {
		t.Errorf("--insecure twice: found %v", err)
	}
}

// A door that is away is waited for; what it may have done isn't known then.
func TestAway(t *testing.T) {
	b, err := Dial("127.0.0.1:1", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Get(ctx, "/home/x"); !errors.Is(err, metastore.ErrUnavailable) {
		t.Errorf("found %v", err)
	}
	if err := b.Commit(ctx, nil, []metastore.Op{{Path: "/home/fleet/changed", Do: metastore.Set,
		Value: []byte(`"x"`)}}); !errors.Is(err, metastore.ErrUnavailable) && !errors.Is(err, metastore.ErrUnknown) {
		t.Errorf("found %v", err)
	}
}

// faulty is a store whose errors tell where it is and what lies where in it.
type faulty struct {
	metastore.Backend
	what error
}

func (f faulty) Get(_ context.Context, path string) (metastore.Node, error) {
	return metastore.Node{}, fmt.Errorf("%w: etcd://10.0.0.9:2379%s, by /etc/disco/h9.pem", f.what, path)
}

func (f faulty) Children(_ context.Context, path string) ([]string, error) {
	return nil, fmt.Errorf("%w: the key %q of %q", f.what, path, "/g")
}

// TestDoorPaths: nobody is told where in the home's store something lies, and who isn't known not even which store it
// is, or what its machine has.
func TestDoorPaths(t *testing.T) {
	s := serve(t, "")
	_, b := s.client(plain)
	for _, ask := range []request{{Do: "get", Path: "/home/none"}, {Do: "get", Path: "/home-parts/none"},
		{Do: "children", Path: "/home/none"}, {Do: "tree", Path: "/home/none/x"}, {Do: "get", Path: "/home/a//b"},
		{Do: "commit", Path: "", Conds: []metastore.Cond{{Path: "/home/fleet/none", Is: metastore.Exists}}}} {
		_, err := b.do(t.Context(), &ask)
		if err != nil && (strings.Contains(err.Error(), "/g/") || strings.Contains(err.Error(), "/g-parts")) {
			t.Errorf("%s %s: found %v", ask.Do, ask.Path, err)
		}
	}
	server := &Server{o: Options{Home: faulty{what: metastore.ErrNoNode}, Root: "/g", Results: "/g-parts"},
		root: inText("/g"), results: inText("/g-parts")}
	for text, want := range map[string]string{"no /g/x": "no /home/x", `no "/g"`: `no "/home"`,
		"/g-parts":            "/home-parts",
		"/g-parts/x, /gone/g": "/home-parts/x, /gone/home", "/g": "/home", "/group /g.x": "/group /g.x"} {
		if f := server.failed(errors.New(text)); f.Text != want {
			t.Errorf("%q: found %q, want %q", text, f.Text, want)
		}
	}
	for _, what := range []error{metastore.ErrUnavailable, errors.New("malformed"), metastore.ErrDenied} {
		server.o.Home = faulty{what: what}
		_, err := server.caller(t.Context(), &http.Request{RemoteAddr: "10.0.0.7:99"})
		if err == nil || strings.Contains(err.Error(), "10.0.0.9") || strings.Contains(err.Error(), "/g") ||
			strings.Contains(err.Error(), "pem") {
			t.Errorf("%v: a stranger is told %v", what, err)
		}
		if is := errors.Is(what, metastore.ErrUnavailable); errors.Is(err, metastore.ErrUnavailable) != is {
			t.Errorf("%v: found %v, another kind", what, err)
		}
	}
}
