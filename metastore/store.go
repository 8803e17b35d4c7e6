// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Format is the number of the layout that this package writes into a store. [New] refuses every other one.
const Format = 1

// identityName is the name, below the group's root, of what says which store this is. No key may begin with it. Below
// it are the sessions' fences.
const identityName = ".disco"

// Options are how a store is used; the zero value is fine.
type Options struct {
	// Chroot and Group are put before every key: what several programs that share servers are kept apart by. Each is
	// one name or several, as "a/b".
	Chroot, Group string
	// Base are directories that New makes where they are missing. They stay when they are empty.
	Base []string
	// Existing opens a group that is there, for those who only look: New fails with ErrNoGroup where there is none, and
	// neither it nor watches make anything.
	Existing bool
	// Codec encodes what is written; JSON if nil. What is read says by itself how it is encoded.
	Codec Codec
	// Cluster refuses every store but the one with this name (Store.Cluster); "" accepts any.
	Cluster string
	// CallbackMax is how long a watch's callback may run before that is reported; 10 s if 0.
	CallbackMax time.Duration
	// Report gets what goes wrong where no caller waits: callbacks that panic or block, watches that end, another
	// cluster. It is called by any goroutine. By default it is logged by log/slog.
	Report func(problem error)
}

// identity is what identityName holds.
type identity struct {
	Layout  int    `json:"format"`
	Cluster string `json:"cluster"`
}

// Store is a group's tree of keys. Its methods may be called by any goroutine, watches' callbacks included. Keys are
// names with slashes between them; [Path] says which are refused. Where a method gets a context, the call ends with it;
// while the store can't be reached it tries again until then.
type Store struct {
	backend Backend
	options Options
	root    string // of the group, or "" where there is neither chroot nor group
	codec   Codec
	own     Codec // for values that aren't JSON or CBOR, or nil
	cluster string
	access  string // path of what says who may do what, or ""

	wrong   chan struct{} // closed when the cluster has changed
	changed sync.Once     // closes it
	ctx     context.Context
	stop    context.CancelFunc
	fence   chan fence // holds one, which whoever takes it gives back
	ensured sync.Map   // paths of directories that were made by this store
}

// New opens a group's tree, and makes it where it is missing. The store owns the backend from then on, also when New
// fails. It fails with ErrWrongCluster, or where the tree has another format than this program.
func New(ctx context.Context, backend Backend, options Options) (*Store, error) {
	s, err := open(ctx, backend, options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metastore: %w", err), backend.Close())
	}
	go s.watchIdentity()
	if s.access != "" {
		g, _ := s.guarded()
		go s.followAccess(g, s.access)
	}
	return s, nil
}

func open(ctx context.Context, backend Backend, options Options) (*Store, error) {
	s := &Store{backend: backend, options: options, codec: options.Codec, wrong: make(chan struct{}),
		fence: make(chan fence, 1)}
	s.fence <- fence{}
	if s.codec == nil {
		s.codec = JSON
	}
	if tagOf(s.codec) == tagOwn {
		s.own = s.codec
	}
	if s.options.CallbackMax == 0 {
		s.options.CallbackMax = 10 * time.Second
	}
	if s.options.Report == nil {
		s.options.Report = func(problem error) { slog.Warn("metastore", "problem", problem) }
	}
	for _, part := range []string{options.Chroot, options.Group} {
		path, err := Path(s.root, part)
		if err != nil {
			return nil, fmt.Errorf("chroot and group: %w", err)
		}
		s.root = strings.TrimSuffix(path, "/")
	}
	if _, err := Path(s.root, identityName+"/"+newMark()); err != nil { // of a fence
		return nil, fmt.Errorf("chroot and group: %w", err)
	}
	var err error
	if s.access, err = s.abide(ctx); err != nil {
		return nil, err
	}
	if err := s.identify(ctx); err != nil {
		return nil, err
	}
	for _, key := range append([]string{""}, options.Base...) {
		if options.Existing {
			break
		}
		if err := s.Ensure(ctx, key); err != nil {
			return nil, err
		}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// identify reads which store this is, or makes that known where nobody has yet.
func (s *Store) identify(ctx context.Context) error {
	path, err := Path(s.root, identityName)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		found, err := s.readIdentity(ctx, path)
		if err == nil {
			s.cluster = found.Cluster
			return s.check(found)
		}
		if !errors.Is(err, ErrNoNode) {
			return err
		}
		if s.options.Existing {
			return s.noGroup(ctx)
		}
		raw, err := encode(JSON, identity{Format, rand.Text()}, "")
		if err != nil {
			return err
		}
		err = s.backend.Commit(ctx, nil, []Op{{Path: path, Do: Create, Value: raw}})
		var conflict *ConflictError // somebody else was faster
		if err != nil && !errors.Is(err, ErrUnknown) && !errors.As(err, &conflict) {
			return err
		}
		if cause := pause(ctx, try); cause != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, cause)
		}
	}
}

// ErrNoGroup is the error of [New] about a group that isn't there (Options.Existing).
var ErrNoGroup = errors.New("there is no such group")

// noGroup names the groups that are there beside the one that isn't, as far as they can be read.
func (s *Store) noGroup(ctx context.Context) error {
	chroot, err := Path("", s.options.Chroot)
	if err != nil {
		return err
	}
	names, _ := s.backend.Children(ctx, chroot) // without them the error is the same
	var groups []string
	for _, name := range names[:min(len(names), 100)] {
		path, err := Path(strings.TrimSuffix(chroot, "/"), name+"/"+identityName)
		if err != nil {
			continue
		}
		if _, err := s.readIdentity(ctx, path); err == nil && len(groups) < 10 {
			groups = append(groups, name)
		}
	}
	has := "none"
	if len(groups) > 0 {
		has = fmt.Sprintf("%q", groups)
	}
	return fmt.Errorf("%w: %q; the store has %s", ErrNoGroup, s.options.Group, has)
}

// readIdentity reads and decodes it.
func (s *Store) readIdentity(ctx context.Context, path string) (found identity, err error) {
	n, err := s.backend.Get(ctx, path)
	if err != nil {
		return found, err
	}
	return s.decodeIdentity(n)
}

func (s *Store) decodeIdentity(n Node) (found identity, err error) {
	err = s.value(identityName, n).Decode(&found)
	return found, err
}

// check refuses other formats and clusters.
func (s *Store) check(found identity) error {
	switch {
	case found.Layout != Format:
		return fmt.Errorf("the group %q has format %d, this program writes %d: take a program of the same version as "+
			"the others, or another group", s.root, found.Layout, Format)
	case s.options.Cluster != "" && found.Cluster != s.options.Cluster:
		return fmt.Errorf("%w: the group %q is of cluster %q, %q is expected", ErrWrongCluster, s.root, found.Cluster,
			s.options.Cluster)
	}
	return nil
}

// watchIdentity sees when the servers have lost their data, or the group's tree was deleted: nothing that this
// program knows of it is true any more.
func (s *Store) watchIdentity() {
	feed := s.backend.Watch(s.root+"/"+identityName, Data)
	defer feed.Close()
	for {
		state, err := feed.Next(s.ctx)
		if errors.Is(err, ErrWrongCluster) {
			s.isWrong(err)
		}
		if err != nil {
			return
		}
		found, err := s.decodeIdentity(state.Node)
		switch {
		case err == nil && found.Cluster == s.cluster:
			continue
		case state.Node.Value == nil:
			err = errors.New("it is gone")
		case err == nil:
			err = fmt.Errorf("it is of cluster %q now", found.Cluster)
		}
		s.isWrong(fmt.Errorf("%w: the group %q was of cluster %q: %w", ErrWrongCluster, s.root, s.cluster, err))
		return
	}
}

// isWrong says once that the cluster has changed.
func (s *Store) isWrong(err error) {
	s.changed.Do(func() {
		close(s.wrong)
		s.options.Report(fmt.Errorf("metastore: %w: start this program again", err))
	})
}

// Wrong is closed when the store isn't the one any more that it was: its servers have lost their data or were given an
// older copy, or the group was deleted. Every call fails with ErrWrongCluster then, and watches end or show what
// nobody should go by.
func (s *Store) Wrong() <-chan struct{} { return s.wrong }

// Cluster is the name that the group's tree got when it was made: another one, another tree.
func (s *Store) Cluster() string { return s.cluster }

// Closed is closed by Close: for those who wait for what the store would tell them.
func (s *Store) Closed() <-chan struct{} { return s.ctx.Done() }

// Close ends the session, so that the store's ephemeral keys are gone when it returns, and all watches and calls that
// wait: those fail with ErrClosed, as later ones do. What was made with the store ends, too: a leadership is lost, and
// the views and members of package cluster wait no longer. It doesn't wait for callbacks.
func (s *Store) Close() error {
	s.stop()
	return s.backend.Close()
}

// Trouble is why the servers aren't asked now, since none has answered several times in a row, or nil: also where the
// engine doesn't say.
func (s *Store) Trouble() error {
	if t, ok := s.backend.(interface{ Trouble() error }); ok {
		return t.Trouble()
	}
	return nil
}

// Session returns the session that lives now. Ephemeral keys live as long as it does.
func (s *Store) Session(ctx context.Context) (Session, error) {
	session, err := s.backend.Session(ctx)
	if err != nil {
		return nil, fmt.Errorf("metastore: session: %w", err)
	}
	return session, nil
}

// path makes the absolute path of a key. It fails where the key is refused, or the store isn't the one it was.
func (s *Store) path(key string) (string, error) {
	select {
	case <-s.wrong:
		return "", fmt.Errorf("key %q: %w: start this program again", key, ErrWrongCluster)
	default:
	}
	return keyPath(s.root, key)
}

// writable is path for what may be written: not the root itself.
func (s *Store) writable(key string) (string, error) {
	if isRoot(key) {
		return "", errRoot(key)
	}
	return s.path(key)
}

// key is the inverse of path.
func (s *Store) key(path string) string { return strings.TrimPrefix(path[len(s.root):], "/") }
