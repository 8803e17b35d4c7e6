// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// killEnv has a process of a run be killed at an instant, as aim.String says it.
const killEnv = "DISCO_TEST_KILL"

// aim is an instant of a run with checkpoints, and which of its processes is killed there.
type aim struct {
	// place is a step of the store in the launcher, such as "name packs" (checkpoint.Dir.SetStep, killingBlobs), or of
	// a worker: "encode" or "load" of a node, "write" of what was encoded. Of a hand-off it is "hand-off " and a step
	// of the launcher (launch.Step…), "leave" or "arrive" of a node in a worker, or "late", soon after all is moved.
	place string
	n     int    // when it is come to for the n-th time, in one process; 1 first
	who   string // launcher, worker
	token string // a file that is there until it has happened
}

func (a aim) String() string {
	return strings.Join([]string{a.place, strconv.Itoa(a.n), a.who, a.token}, "|")
}

// armKill sets what killEnv asks for up, in a process of a run.
func armKill() {
	part := strings.Split(os.Getenv(killEnv), "|")
	if len(part) != 4 {
		return
	}
	n, err := strconv.Atoi(part[1])
	if err != nil {
		panic(err)
	}
	k := &killer{aim: aim{part[0], n, part[2], part[3]}, worker: launch.IsWorker(), parent: os.Getppid()}
	if k.worker {
		launchtest.AtState = k.state
		return
	}
	launchtest.AtStep = k.moves
	watchBlobs = func(b checkpoint.Blobs) checkpoint.Blobs {
		if dir, ok := b.(*checkpoint.Dir); ok {
			dir.SetStep(func(step, name string) error {
				k.at(step + " " + k.folder(name))
				return nil
			})
			return dir
		}
		return &killingBlobs{b, k}
	}
}

// killer kills in the process where it is. Goroutines may share it.
type killer struct {
	aim
	worker bool // it is in one
	parent int  // the process that has started this one
	count  atomic.Int64
}

// folder is what kind of file a name of the store is of.
func (k *killer) folder(name string) string {
	for _, folder := range []string{"packs", "points", "done", "labels"} {
		if strings.HasPrefix(name, folder+"/") || strings.HasSuffix(name, "/"+folder) {
			return folder
		}
	}
	return name
}

// launcher is the parent of a worker. 0: it has gone, and what is the parent now is somebody else.
func (k *killer) launcher() int {
	if pid := os.Getppid(); pid == k.parent {
		return pid
	}
	return 0
}

// anyWorker is one of a launcher's workers, 0 where it has none.
func anyWorker(launcher int) int {
	live, err := inspect.Process(launcher)
	if err != nil {
		return 0
	}
	pids := slices.DeleteFunc(live.Workers, func(w inspect.Worker) bool { return w.PID == 0 })
	if len(pids) == 0 {
		return 0
	}
	return pids[rand.IntN(len(pids))].PID
}

// at is called at a place.
func (k *killer) at(place string) {
	if place != k.place || k.count.Add(1) < int64(k.n) {
		return
	}
	pid, self := os.Getpid(), k.worker == (k.who == "worker")
	switch {
	case self:
	case k.who == "launcher":
		pid = k.launcher()
	default:
		pid = anyWorker(pid)
	}
	if pid == 0 { // which as a target would be this whole process group, with the test and what has started it
		return // the next time
	}
	if os.Remove(k.token) != nil {
		return // it has happened
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // a worker may have ended
	if self {
		select {}
	}
}

// moves is called at each step of moving nodes.
func (k *killer) moves(step string) {
	k.at(handOff + step)
	if step == launch.StepMoved {
		go func() { // while it goes on
			time.Sleep(time.Duration(rand.IntN(int(2 * time.Millisecond))))
			k.at(handOff + "late")
		}()
	}
}

// handOff begins the names of places where nodes move.
const handOff = "hand-off "

// called tells whether a function of some name has called.
func called(name string) bool {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasSuffix(frame.Function, name) {
			return true
		}
	}
	return false
}

// state is called where a worker saves or loads the state of a node.
func (k *killer) state(loading bool) {
	if strings.HasPrefix(k.place, handOff) {
		switch {
		case loading && called("worker.(*replications).adopt"):
			k.at(handOff + "arrive")
		case !loading && called("worker.(*replications).handOver"):
			k.at(handOff + "leave")
		}
		return
	}
	if loading {
		k.at("load")
		return
	}
	k.at("encode")
	go func() { // while it goes on, and another goroutine hashes, compresses and writes
		time.Sleep(time.Duration(rand.IntN(int(2 * time.Millisecond))))
		k.at("write")
	}()
}

// killingBlobs is a place of which each step may be where something is killed.
type killingBlobs struct {
	checkpoint.Blobs
	k *killer
}

func (b *killingBlobs) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	folder := b.k.folder(name)
	b.k.at("put " + folder)
	half := &halfReader{Reader: r, left: size / 2, at: func() { b.k.at("half " + folder) }}
	err := b.Blobs.Put(ctx, name, half, size, onlyNew)
	b.k.at("behind " + folder)
	return err
}

func (b *killingBlobs) Get(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	b.k.at("get " + b.k.folder(name))
	return b.Blobs.Get(ctx, name, from, size, buf)
}

func (b *killingBlobs) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		b.k.at("delete " + b.k.folder(name))
		if err := b.Blobs.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// halfReader calls at once in the middle.
type halfReader struct {
	io.Reader
	left int64
	at   func()
	once sync.Once
}

func (h *halfReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.left -= int64(n); h.left <= 0 {
		h.once.Do(h.at)
	}
	return n, err
}
