// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"sync"
	"time"
)

// Of what anybody can cause who reaches a port, so many lines are written in such a time; the rest is counted.
const (
	linesMost = 10
	linesTime = 10 * time.Second
)

// limit passes reports about connections on, as many as may be written.
type limit struct {
	to func(error)

	mu    sync.Mutex
	came  int // since the timer was started
	timer *time.Timer
}

func (l *limit) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.came++; l.came == 1 {
		l.timer = time.AfterFunc(linesTime, l.flush)
	}
	if l.came <= linesMost {
		l.to(err)
	}
}

// flush says how many were left out, and begins anew.
func (l *limit) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.came - linesMost; left > 0 {
		l.to(fmt.Errorf("%d more connections or offers came to nothing within %v, and aren't listed", left, linesTime))
	}
	if l.came = 0; l.timer != nil {
		l.timer.Stop()
	}
}
