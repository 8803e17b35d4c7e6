// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Backend is what an engine must be able to do; everything else of a store is written once above it. Paths are
// absolute and checked ([Path]), values are 1 to [MaxValue] bytes. Every method may be called by any goroutine. What
// is returned belongs to the caller.
//
// A node exists if it holds data or has children. Parents come into being with their first child, without data, and
// vanish with their last one; a node that was given data stays until it is deleted.
//
// A call that finds the engine out of reach tries again, with jitter, until its context ends, and then fails with an
// error that wraps [ErrUnavailable] and says for how long it has tried. [Backend.Commit] and [Backend.Append] try again
// only while it is certain that nothing has been done; where that can't be known they fail with [ErrUnknown]. What
// failed so may be done later, too, after other calls have returned: a server that was stopped may still have it in its
// hands.
type Backend interface {
	// Get reads one node as it is at some time between call and return (linearizable). Value is nil in a node that
	// only has children. ErrNoNode.
	Get(ctx context.Context, path string) (Node, error)
	// Children lists the names of a node's children, sorted; linearizable as Get is. ErrNoNode.
	Children(ctx context.Context, path string) ([]string, error)
	// Tree reads path and everything below it that holds data, sorted by path. It isn't one moment's picture on every
	// engine: each node is one that was there during the call. Nothing there is no error.
	Tree(ctx context.Context, path string) ([]Leaf, error)
	// Commit does all operations or none, if all conditions hold. No path may occur in two operations or lie below that
	// of a DeleteTree; there may be MaxOps operations and conditions together ([CheckCommit]). *ConflictError with the
	// first condition that doesn't hold, ErrUnknown, ErrSessionLost, ErrEphemeralParent, ErrTooLarge.
	Commit(ctx context.Context, conds []Cond, ops []Op) error
	// Append creates a child of dir whose name sorts after those of all that were appended there before, and returns
	// its name. [CheckAppend] says what is refused. ErrUnknown, ErrEphemeralParent, ErrTooLarge.
	Append(ctx context.Context, dir string, value []byte) (name string, err error)
	// Watch follows one node's data or its children's names. It needs no node to be there.
	Watch(path string, kind WatchKind) Feed
	// Session returns the session that lives now, or makes a new one after the last was lost. Ephemeral nodes live as
	// long as their session. A backend has one session at a time; the same one is returned until it is lost.
	Session(ctx context.Context) (Session, error)
	// Cluster names the engine's cluster, such that two clusters never have the same name, as far as the engine
	// can tell; "" where it can't.
	Cluster(ctx context.Context) (string, error)
	// Close ends the session, so that its ephemeral nodes are gone at once, and every call and feed that waits, with
	// ErrClosed. Calling it again does nothing.
	Close() error
}

// Node is one node's data.
type Node struct {
	Value     []byte  // nil: no data, only children
	Version   Version // zero without data
	Ephemeral bool
	Owner     uint64 // of an ephemeral node: a number that all nodes of its session have, and no others; otherwise 0
}

// Version tells two states of a node's data apart: every change gives another, and one from before a delete never
// equals one from after it. Versions are compared by == only; Created alone is ordered.
type Version struct {
	Created uint64 // rises over all nodes in the order in which they were created: a fencing token
	Changed uint64
}

// Leaf is a node that holds data, with its path.
type Leaf struct {
	Path string
	Node
}

// CondKind is what a condition asks for.
type CondKind uint8

// The kinds of conditions. They speak of data: a node that only has children is missing.
const (
	Exists  CondKind = iota + 1 // holds data
	Missing                     // holds none
	At                          // holds data of exactly this version
)

// Cond is a condition of a commit.
type Cond struct {
	Path    string
	Is      CondKind
	Version Version // At
}

// OpKind is what an operation does.
type OpKind uint8

// The kinds of operations.
const (
	Create     OpKind = iota + 1 // gives data to a node that holds none, or the commit conflicts
	Set                          // gives data, whether there was some or not; an ephemeral node stays one
	Delete                       // takes the data away; children stay; nothing there is no conflict
	DeleteTree                   // takes the node and everything below it away; nothing there is no conflict
)

// Op is an operation of a commit.
type Op struct {
	Path    string
	Do      OpKind
	Value   []byte  // Create, Set
	Session Session // Create: the node is ephemeral and this session's; nil: it stays
}

// Session is a client's presence at the engine.
type Session interface {
	ID() string
	// TTL is how long the engine waits for a silent client before it ends the session, as granted.
	TTL() time.Duration
	// Lost is closed as soon as this side knows that the session has ended or must be taken for ended: before another
	// client can see its ephemeral nodes vanish, unless this process was stopped meanwhile.
	Lost() <-chan struct{}
}

// WatchKind is what a watch follows.
type WatchKind uint8

// The kinds of watches.
const (
	Data WatchKind = iota + 1
	Names
)

// State is what a feed saw last.
type State struct {
	Node  Node     // Data: the zero Node where there is no data
	Names []string // Names: the children, sorted; none where there is no node
}

// Feed follows one node. It is used by one goroutine; Close may be called by any. One that has a goroutine of its own
// may have the method Notify(wake func()), too, which saves the caller's: wake is called whenever Next has something.
type Feed interface {
	// Next returns the state at the first call, and then waits until it differs from the one returned last. States
	// between two calls are left out; none is older than one returned before. It goes on over reconnects and lost
	// sessions; while the engine can't be reached it waits. It fails only when ctx ends, or with ErrClosed.
	Next(ctx context.Context) (State, error)
	Close()
}

// Limits, the same for every engine.
const (
	MaxValue   = 1_000_000              // bytes, with tag and mark; of all values of one commit, too
	MaxEncoded = MaxValue - 1 - markLen // bytes of a value as the codec encodes it, whichever call writes it
	MaxOps     = 100                    // conditions and operations of one commit
	MaxName    = 255                    // bytes of one name
	MaxPath    = 1024                   // bytes of a path, with chroot and group
)

// Errors. They are wrapped by what says where and what to do: use errors.Is.
var (
	ErrNoNode          = errors.New("there is no such node")
	ErrUnavailable     = errors.New("the store can't be reached")
	ErrUnknown         = errors.New("the connection broke before the answer came: it may have been done, or not")
	ErrSessionLost     = errors.New("the session has ended")
	ErrEphemeralParent = errors.New("an ephemeral node can't have children")
	ErrDenied          = errors.New("the store refuses this user")
	ErrClosed          = errors.New("the store is closed")
	ErrTooLarge        = errors.New("too large for the store")
	ErrWrongCluster    = errors.New("this is another store than before")
)

// ConflictError says which condition of a commit didn't hold. A Create of what exists counts as Missing.
type ConflictError struct{ Cond Cond }

// Error names the path.
func (e *ConflictError) Error() string {
	switch e.Cond.Is {
	case Exists:
		return fmt.Sprintf("%s: was expected to hold data, and holds none", e.Cond.Path)
	case Missing:
		return fmt.Sprintf("%s: was expected to hold no data, and holds some", e.Cond.Path)
	}
	return fmt.Sprintf("%s: was changed meanwhile", e.Cond.Path)
}
