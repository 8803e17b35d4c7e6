// SPDX-License-Identifier: Apache-2.0

// Package doorway is how people reach the experiments of a door's home: its store over HTTP, for reading, and for
// writing what people may write.
//
// Guarantee: a client can submit, and wish, and nothing else: what doors and leaders write is refused, and so is every
// key outside the home's group and its parts. Where roles were given at the home each request is by a user, who may do
// what the role says, and what a user does is in the audit with it. Nothing is sent over a network without TLS, unless
// that was said twice.
//
//	backend, err := doorway.Dial("10.0.0.9:7443", doorway.Security{Folder: "ann"})
//	store, err := metastore.New(ctx, backend, metastore.Options{Group: doorway.Group, Existing: true})
package doorway

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	Do    string           `json:"do"` // get, children, tree, commit, who
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
	User   string           `json:"user,omitempty"` // who asks, as the door knows it
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
		text := strings.TrimPrefix(strings.TrimPrefix(f.Text, is.Error()), ": ")
		return fmt.Errorf("the door: %w: %.2000s", is, text)
	}
	return &otherError{fmt.Sprintf("the door: %.2000s", f.Text)}
}

// otherError is an error of a door that is none of the store's.
type otherError struct{ text string }

// Error is what the door has said.
func (e *otherError) Error() string { return e.text }

// below is what of a path lies below a root; false: it doesn't.
func below(path, root string) (rest string, ok bool) {
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}
