// SPDX-License-Identifier: Apache-2.0

// Package mem is a metadata store in memory: several clients over one tree. It is the reference for the other engines,
// and the store of tests and of programs of one process.
//
// Guarantee: it does what metastore.Backend asks for, and each call takes effect at one moment, under one lock.
//
//	server := mem.NewServer(5 * time.Second)
//	a, b := server.NewClient(), server.NewClient()
package mem

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Server is the tree that clients share. Its methods may be called by any goroutine.
type Server struct {
	ttl  time.Duration
	name string

	mu       sync.Mutex
	root     *node
	revision uint64 // of the last change
	sessions uint64 // made so far
	feeds    map[feedKey]map[*feed]bool
	clients  map[*Client]bool
	stopped  bool
}

// feedKey is what a feed follows.
type feedKey struct {
	path string
	kind metastore.WatchKind
}

// NewServer makes an empty tree. Sessions of clients that are disconnected end after ttl.
func NewServer(ttl time.Duration) *Server {
	s := &Server{ttl: ttl, feeds: map[feedKey]map[*feed]bool{}, clients: map[*Client]bool{}}
	s.clear()
	return s
}

// clear begins an empty tree with a name of its own. It is called with the lock held, or before anyone else has s.
func (s *Server) clear() {
	s.name, s.root = "mem-"+rand.Text(), &node{path: "/", children: map[string]*node{}}
}

// NewClient makes a client with a session of its own.
func (s *Server) NewClient() *Client {
	c := &Client{server: s, turned: make(chan struct{}), closed: make(chan struct{})}
	s.mu.Lock()
	s.clients[c] = true
	s.mu.Unlock()
	return c
}

// Stop makes the server unreachable for all clients, until Start. Sessions end as when their clients are disconnected.
func (s *Server) Stop() { s.stop(true) }

// Start undoes Stop.
func (s *Server) Start() { s.stop(false) }

func (s *Server) stop(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = stopped
	for c := range s.clients {
		c.turn()
	}
}

// Wipe makes another, empty cluster of the server, as if somebody had deleted its files. All sessions have ended.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		c.endSession()
	}
	s.clear()
	for _, feeds := range s.feeds {
		for f := range feeds {
			f.ping()
		}
	}
}

// subscribe makes f learn of changes, or no longer.
func (s *Server) subscribe(f *feed, on bool) {
	if !on {
		delete(s.feeds[f.key], f)
		if len(s.feeds[f.key]) == 0 {
			delete(s.feeds, f.key)
		}
		return
	}
	if s.feeds[f.key] == nil {
		s.feeds[f.key] = map[*feed]bool{}
	}
	s.feeds[f.key][f] = true
}

// changed wakes the feeds of a node.
func (s *Server) changed(path string, kind metastore.WatchKind) {
	for f := range s.feeds[feedKey{path, kind}] {
		f.ping()
	}
}

// newSession makes a session.
func (s *Server) newSession() *session {
	s.sessions++
	return &session{id: fmt.Sprintf("%s-%d", s.name, s.sessions), number: s.sessions, ttl: s.ttl,
		lost: make(chan struct{}), nodes: map[*node]bool{}}
}

// session is a client's presence. Its fields but nodes never change; nodes is guarded by the server's lock.
type session struct {
	id     string
	number uint64
	ttl    time.Duration
	lost   chan struct{}
	nodes  map[*node]bool
}

// ID names the session.
func (s *session) ID() string { return s.id }

// TTL is how long it lives without its client.
func (s *session) TTL() time.Duration { return s.ttl }

// Lost is closed when it has ended.
func (s *session) Lost() <-chan struct{} { return s.lost }
