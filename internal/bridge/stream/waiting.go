// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"sync"
	"time"
)

// waitingMax is how many connections may be waited for at a time.
const waitingMax = 64

// waiting is the connections that haven't shown yet what they are. Each has a time limit. One too many pushes the one
// out that has waited longest: who has something to show does so at once, so that many who don't keep nobody out.
type waiting struct {
	mu   sync.Mutex
	all  []*visitor // in the order in which they came
	done bool
}

// visitor is one of them.
type visitor struct {
	close func()
	timer *time.Timer
	in    *waiting
	gone  chan struct{} // closed with the connection
}

// enter adds a connection, which is closed unless it leaves in time. close may not call leave.
func (w *waiting) enter(close func(), limit time.Duration) *visitor {
	v := &visitor{close: close, in: w, gone: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	v.timer = time.AfterFunc(limit, v.expel)
	if len(w.all) == waitingMax {
		w.all[0].end()
		w.all = append(w.all[:0], w.all[1:]...)
	}
	w.all = append(w.all, v)
	if w.done {
		v.end()
		w.all = nil
	}
	return v
}

// leave takes a connection off the list; it is nobody's any more, unless it was closed already.
func (v *visitor) leave() (ok bool) {
	v.in.mu.Lock()
	defer v.in.mu.Unlock()
	v.timer.Stop()
	for i, other := range v.in.all {
		if other == v {
			v.in.all = append(v.in.all[:i], v.in.all[i+1:]...)
			return true
		}
	}
	return false
}

// expel closes a connection that has waited too long.
func (v *visitor) expel() {
	if v.leave() {
		v.end()
	}
}

// end is called once, by who has taken the visitor off the list.
func (v *visitor) end() {
	v.timer.Stop()
	close(v.gone)
	v.close()
}

// close closes all, and whatever comes later.
func (w *waiting) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	for _, v := range w.all {
		v.end()
	}
	w.all = nil
}
