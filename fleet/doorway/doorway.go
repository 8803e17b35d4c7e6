// SPDX-License-Identifier: Apache-2.0

// Package doorway is how people reach the experiments of a door's home: its store over HTTP, for reading, and for
// writing what people may write.
//
// Guarantee: a client can submit, and wish, and nothing else: what doors and leaders write is refused, and so is every
// key outside the home's group and its parts. Nothing is sent over a network without TLS, by which both sides are
// known.
//
//	backend, err := doorway.Dial("10.0.0.9:7443", "tls")
//	store, err := metastore.New(ctx, backend, metastore.Options{Group: doorway.Group, Existing: true})
package doorway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/metastore"
)

// Group is the name under which clients see the home's group, and Results that of the tree of its parts.
const (
	Group   = "home"
	Results = Group + "-parts"
)

// Scheme begins addresses that are a door's.
const Scheme = "door://"

// Limits of what is read.
const (
	requestMost = 4 << 20   // a commit has at most a megabyte, and base64 makes more of it
	replyMost   = 512 << 20 // the pieces of the largest experiment
	answerTime  = 2 * time.Minute
	readTime    = 30 * time.Second
)

// header is one that no page of somebody else's can send by way of a browser without being asked first.
const header = "Disco-Door"

// version is that of the protocol.
const version = "1"

// request is what a client asks.
type request struct {
	Do    string           `json:"do"` // get, children, tree, commit
	Path  string           `json:"path,omitempty"`
	Conds []metastore.Cond `json:"conds,omitempty"`
	Ops   []operation      `json:"ops,omitempty"`
}

type operation struct {
	Path  string           `json:"path"`
	Do    metastore.OpKind `json:"do"`
	Value []byte           `json:"value,omitempty"`
}

// reply is what is answered.
type reply struct {
	Node   *metastore.Node  `json:"node,omitempty"`
	Names  []string         `json:"names,omitempty"`
	Leaves []metastore.Leaf `json:"leaves,omitempty"`
	Error  *failure         `json:"error,omitempty"`
}

// failure is an error.
type failure struct {
	Kind string          `json:"kind"`
	Text string          `json:"text"`
	Cond *metastore.Cond `json:"cond,omitempty"` // of a conflict
}

// kinds are the store's errors that a client tells apart.
var kinds = map[string]error{"no node": metastore.ErrNoNode, "unavailable": metastore.ErrUnavailable,
	"unknown": metastore.ErrUnknown, "denied": metastore.ErrDenied, "too large": metastore.ErrTooLarge,
	"wrong cluster": metastore.ErrWrongCluster, "closed": metastore.ErrClosed}

// failed is an error as it is sent.
func failed(err error) *failure {
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) {
		return &failure{Kind: "conflict", Text: err.Error(), Cond: &conflict.Cond}
	}
	f := &failure{Kind: "other", Text: err.Error()}
	for _, kind := range []string{"unknown", "denied", "no node", "too large", "wrong cluster", "closed",
		"unavailable"} {
		if errors.Is(err, kinds[kind]) {
			f.Kind = kind
			break
		}
	}
	return f
}

// error is the error that was sent.
func (f *failure) error() error {
	if f.Kind == "conflict" && f.Cond != nil {
		return &metastore.ConflictError{Cond: *f.Cond}
	}
	if is := kinds[f.Kind]; is != nil {
		return fmt.Errorf("the door: %w: %.2000s", is, f.Text)
	}
	return fmt.Errorf("the door: %.2000s", f.Text)
}

// Secure is the TLS of a door, or of who reaches it: by the folder that `certs issue` made, and none without one, which
// is for the loopback alone.
func Secure(address, folder string, serves bool) (*tls.Config, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return nil, fmt.Errorf("found the address %.300q, want HOST:PORT", address)
	}
	if folder == "" {
		ip, notNumeric := netip.ParseAddr(host)
		if host == "localhost" || notNumeric == nil && ip.IsLoopback() {
			return nil, nil
		}
		return nil, fmt.Errorf("found the address %.300s, which others may reach, without certificates: want "+
			"--door-tls with the folder that `certs issue` made for this machine, or a loopback address", address)
	}
	id, err := certs.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("--door-tls: %w", err)
	}
	config := id.Client(host)
	if serves {
		config = id.Server()
	}
	config.NextProtos = []string{"http/1.1"}
	return config, nil
}

// below is what of a path lies below a root; false: it doesn't.
func below(path, root string) (rest string, ok bool) {
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}
