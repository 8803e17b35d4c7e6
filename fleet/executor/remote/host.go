// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/local"
)

// HostOptions are what a host starts, and where. Program, Work and Version are needed.
type HostOptions struct {
	Program string   // that runs scenarios: disco-run, or one with models of one's own
	Work    string   // folder, below which each agent's hosts on each machine have one of their own
	Version string   // of the program: the agent's is the same
	Env     []string // for what is started, besides the host's own
}

// nodeVariable says on which node of Kubernetes a host is.
const nodeVariable = "DISCO_NODE"

const (
	beginMax    = time.Minute // until an agent has said who it is
	silentMin   = 100 * time.Millisecond
	silentMax   = 10 * time.Minute
	closeWait   = 30 * time.Second // for attempts to end, besides their grace
	progressGap = time.Second      // between two reports of an attempt
)

// host is the end of a connection at which attempts run.
type host struct {
	o      HostOptions
	c      *conn
	hello  *hello
	folder *folder
	local  *local.Local
	clock  context.Context // ends with the connection
	frames chan frame      // that were received, but for pings
	fetch  chan struct{}   // has a value for each blob that is under way

	working   sync.WaitGroup // requests
	following sync.WaitGroup // attempts

	mu       sync.Mutex
	requests int
	number   uint64
	blobs    map[uint64]*incoming
	runs     map[string]executor.Run
}

// incoming is a blob under way.
type incoming struct {
	most  int64
	bytes []byte
	end   chan error // gets why it doesn't come, nil: it is whole
}

// Serve is a host: it does what the agent at the other end of a connection asks for, until that closes it, or the
// connection or ctx ends. Then it stops all attempts, with the agent's grace, and returns when no process of them is
// left. The error says why, unless the agent has asked for it.
func Serve(ctx context.Context, rw io.ReadWriteCloser, o HostOptions) error {
	h := &host{o: o, c: newConn(rw, beginMax), frames: make(chan frame),
		fetch: make(chan struct{}, fetchesMax), blobs: map[uint64]*incoming{},
		runs: map[string]executor.Run{}}
	defer h.c.fail(errors.New("the host has ended"))
	defer context.AfterFunc(ctx, func() { h.c.fail(context.Cause(ctx)) })()
	closing, err := h.serve()
	if h.local != nil {
		grace := h.hello.Grace
		h.working.Wait() // nothing begins behind the end
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+closeWait)
		defer cancel()
		wrong := h.local.Close(end)
		if wrong == nil {
			h.following.Wait() // the agent is told of all ends
		}
		if h.hello.Once && wrong == nil {
			wrong = h.folder.remove()
		}
		err = errors.Join(err, wrong)
		if closing != nil {
			h.answer(closing.ID, 0, wrong)
		}
	}
	if h.folder != nil {
		err = errors.Join(err, h.folder.close())
	}
	return err
}

// serve works until the connection ends, or the agent closes it by a request that is returned.
func (h *host) serve() (closing *message, err error) {
	own := &hello{Protocol: protocol, Version: h.o.Version,
		Node: cmp.Or(os.Getenv(nodeVariable), os.Getenv("SLURMD_NODENAME"))}
	if h.hello, err = h.c.greet(); err != nil {
		if ended := h.c.ended(); ended != nil {
			err = ended
		}
		return nil, fmt.Errorf("host: %w: an agent of the fleet starts this, and speaks with it over standard input "+
			"and output", err)
	}
	if err := h.c.write([]byte(preamble)); err != nil {
		return nil, err
	}
	if err := h.c.send(kindHello, &message{Hello: own}); err != nil {
		return nil, err
	}
	if err := h.begin(own); err != nil {
		_ = h.c.send(kindRefused, &message{Error: clip(err.Error(), fleet.MaxReason)}) // it is returned, too
		return nil, fmt.Errorf("host: %w", err)
	}
	clock, cancel := context.WithCancelCause(context.Background())
	defer cancel(errors.New("the connection to the agent has ended"))
	h.clock = clock
	if err := h.c.send(kindReady, &message{}); err != nil {
		return nil, err
	}
	for {
		select {
		case f := <-h.frames:
			if f.kind == kindClose {
				go h.drain()
				return f.message, nil
			}
			if err := h.take(f.kind, f.message, f.blob); err != nil {
				h.c.fail(err)
			}
		case <-h.c.done:
			return nil, fmt.Errorf("host: the connection to the agent has ended: %w", h.c.err)
		}
	}
}

// frame is one that was received.
type frame struct {
	kind    kind
	message *message
	blob    []byte
}

// read receives until the connection ends: also while the host begins and ends, since what comes are signs of life.
func (h *host) read() {
	for {
		k, m, blob, err := h.c.receive()
		if err != nil {
			h.c.fail(err)
			return
		}
		if k == kindPing {
			continue
		}
		select {
		case h.frames <- frame{k, m, blob}:
		case <-h.c.done:
			return
		}
	}
}

// drain leaves what else the agent sends while all attempts end.
func (h *host) drain() {
	for {
		select {
		case <-h.frames:
		case <-h.c.done:
			return
		}
	}
}

// begin checks what the agent says of itself, and takes the folder.
func (h *host) begin(own *hello) (err error) {
	a := h.hello
	if err := a.agrees(own, "the agent", "this host"); err != nil {
		return err
	}
	if !isMark(a.Mark) || !isMark(a.Name) || a.Silent < silentMin || a.Silent > silentMax || a.Grace < 0 ||
		a.Grace > graceMax || a.Locked < 0 || a.Locked > graceMax || a.Cache < 0 {
		return fmt.Errorf("found the mark %.80q, the name %.80q, silence %v, grace %v, wait for locks %v, cache %d; "+
			"want letters, digits and -, %v to %v, at most %v, the same, 0 or more", a.Mark, a.Name, a.Silent, a.Grace,
			a.Locked, a.Cache, silentMin, silentMax, graceMax)
	}
	h.c.limit(a.Silent)
	go h.c.live()
	go h.read()
	if h.folder, err = takeFolder(h.c.done, h.o.Work, a); err != nil {
		return err
	}
	h.local, err = local.Open(context.Background(), h.options(h.folder.path))
	if err == nil {
		err = h.sweepOthers()
	}
	return err
}

// options are those of the executor with a folder.
func (h *host) options(work string) local.Options {
	return local.Options{Program: h.o.Program, Work: work, Owner: h.hello.Owner, Env: h.o.Env, Fetch: h.fetchBlob,
		Grace: h.hello.Grace, Locked: h.hello.Locked, Cache: h.hello.Cache}
}

// sweepOthers ends what was left in folders of the agent's other hosts of this machine that are no more: names that
// aren't used again.
func (h *host) sweepOthers() error {
	others, err := h.folder.others()
	for _, f := range others {
		l, wrong := local.Open(context.Background(), h.options(f.path))
		if wrong == nil {
			wrong = l.Close(context.Background())
		}
		if wrong == nil {
			wrong = f.remove()
		}
		err = errors.Join(err, wrong, f.close())
	}
	return err
}

// take does what a frame says. An error ends the connection.
func (h *host) take(k kind, m *message, blob []byte) error {
	switch k {
	case kindBlob, kindBlobEnd:
		return h.takeBlob(k, m, blob)
	case kindPrepare, kindStart, kindRelease:
		if err := checkJob(m.Job); err != nil {
			return err
		}
	case kindStop, kindSweep:
	default:
		return fmt.Errorf("found a frame of kind %d of an agent", k)
	}
	h.mu.Lock()
	full := h.requests >= requestsMax
	if !full {
		h.requests++
	}
	h.mu.Unlock()
	if full {
		h.answer(m.ID, 0, fmt.Errorf("host: it works at %d requests, and takes no more at a time", requestsMax))
		return nil
	}
	h.working.Go(func() {
		ended, err := h.request(k, m)
		h.mu.Lock()
		h.requests--
		h.mu.Unlock()
		h.answer(m.ID, ended, err)
	})
	return nil
}

// request does one.
func (h *host) request(k kind, m *message) (ended int, err error) {
	switch k {
	case kindPrepare:
		return 0, h.local.Prepare(h.clock, m.Job)
	case kindStart:
		return 0, h.start(m.Job)
	case kindRelease:
		return 0, h.local.Release(m.Job)
	case kindSweep:
		return h.local.Sweep(h.clock)
	}
	h.mu.Lock()
	r := h.runs[m.Name]
	h.mu.Unlock()
	if r == nil {
		return 0, nil // it has ended
	}
	return 0, r.Stop(context.WithoutCancel(h.clock))
}

func (h *host) answer(id uint64, ended int, err error) {
	m := &message{ID: id, Ended: ended}
	if err != nil {
		m.Error, m.Own = clip(err.Error(), fleet.MaxReason), executor.IsOwn(err)
	}
	_ = h.c.send(kindAnswer, m) // a failure has ended the connection
}

// start starts an attempt, and has the agent told how far it is.
func (h *host) start(j *executor.Job) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.clock.Err(); err != nil {
		return context.Cause(h.clock)
	}
	r, err := h.local.Start(j)
	if err != nil {
		return err
	}
	h.runs[j.Name()] = r
	h.following.Go(func() { h.follow(j.Name(), r) })
	return nil
}

// follow reports on an attempt until it ends.
func (h *host) follow(name string, r executor.Run) {
	tick := time.NewTicker(progressGap)
	defer tick.Stop()
	var said fleet.Progress
	output := ""
	for {
		select {
		case <-r.Done():
			h.mu.Lock()
			if h.runs[name] == r {
				delete(h.runs, name)
			}
			h.mu.Unlock()
			p, out := r.Progress(), r.Outcome()
			_ = h.c.send(kindDone, &message{Name: name, Progress: &p, Output: r.Output(), Outcome: &out})
			return
		case <-tick.C:
		}
		m := &message{Name: name}
		if p := r.Progress(); p != said {
			said, m.Progress = p, &p
		}
		if text := r.Output(); string(text) != output {
			output, m.Output = string(text), text
		}
		if m.Progress != nil || m.Output != nil {
			_ = h.c.send(kindProgress, m) // a failure has ended the connection
		}
	}
}

// fetchBlob asks the agent for one.
func (h *host) fetchBlob(ctx context.Context, d fleet.Digest) ([]byte, error) {
	select {
	case h.fetch <- struct{}{}:
		defer func() { <-h.fetch }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	in := &incoming{most: d.Bytes, end: make(chan error, 1)}
	h.mu.Lock()
	h.number++
	id := h.number
	h.blobs[id] = in
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.blobs, id)
		h.mu.Unlock()
	}()
	if err := h.c.send(kindFetch, &message{ID: id, Digest: &d}); err != nil {
		return nil, err
	}
	select {
	case err := <-in.end:
		return in.bytes, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// takeBlob takes bytes of a blob, or its end. One that nobody waits for any more is left.
func (h *host) takeBlob(k kind, m *message, blob []byte) error {
	h.mu.Lock()
	in := h.blobs[m.ID]
	if k == kindBlobEnd {
		delete(h.blobs, m.ID)
	}
	h.mu.Unlock()
	switch {
	case in == nil:
		return nil
	case k == kindBlobEnd:
		in.end <- m.error()
		return nil
	case int64(len(in.bytes)+len(blob)) > in.most:
		return fmt.Errorf("found more than %d bytes of a blob, want %d", len(in.bytes)+len(blob)-1, in.most)
	}
	in.bytes = append(in.bytes, blob...)
	return nil
}

// checkJob refuses what no agent sends.
func checkJob(j *executor.Job) error {
	if j == nil {
		return errors.New("found a request without a job")
	}
	ok := filepath.IsLocal(j.Experiment) && filepath.Base(j.Experiment) == j.Experiment && j.Workers > 0 &&
		j.Replications > 0
	if c := j.Closing; c != nil { // without a scenario
		ok = ok && j.File == "" && c.Points > 0 && c.Points <= fleet.MaxPoints &&
			j.Replications <= fleet.MaxPieces/c.Points
	} else {
		ok = ok && filepath.IsLocal(j.File) && filepath.Base(j.File) == j.File
	}
	for _, a := range j.Attachments {
		ok = ok && filepath.IsLocal(a.Name)
	}
	if !ok {
		return fmt.Errorf("found the job %.80q with the file %.80q, %d workers and %d replications; want names "+
			"without folders, attachments below the scenario's folder, and positive numbers", j.Experiment, j.File,
			j.Workers, j.Replications)
	}
	return nil
}

// HostWork is the folder below which hosts work if nobody says another one: in the user's cache folder, or the one for
// temporary files.
func HostWork() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("disco-%d", os.Getuid()))
	}
	return filepath.Join(cmp.Or(dir, os.TempDir()), "disco-host")
}
