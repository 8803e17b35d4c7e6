// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// tornAfter is how long a server's two values may be of different writings before the view asks the store whether they
// stay so. The watches bring both within milliseconds.
const tornAfter = time.Second

// show shows a server. Where its status and its info are of two writings it finds out whether they stay so: the lock is
// held.
func (v *View) show(name string, s *serverView) {
	if s.show(name) || s.torn {
		return
	}
	s.torn = true
	v.asking.Go(func() {
		for again := true; again; {
			if sleep(v.ctx, tornAfter) != nil {
				return
			}
			again = v.judgeTorn(name, s, v.readTogether(name))
		}
	})
}

// errNotTogether is an error of reading that says nothing about the values.
var errNotTogether = errors.New("the values could not be read together")

// readTogether returns what is wrong with a server's values in the store, or nil. They are written in one commit, so
// that an info which is read between two reads of the same status belongs to that.
func (v *View) readTogether(name string) error {
	before, err := v.store.Get(v.ctx, dirServers+"/"+name)
	info, infoErr := v.store.Get(v.ctx, dirInfo+"/"+name)
	after, err2 := v.store.Get(v.ctx, dirServers+"/"+name)
	if errors.Join(err, err2) != nil || before.Version != after.Version {
		return errNotTogether
	}
	if errors.Is(infoErr, metastore.ErrNoNode) {
		return fmt.Errorf("there is no %s/%s", dirInfo, name)
	}
	status, err := read[Status](before, (*Status).check)
	found, err2 := read[Info](info, (*Info).check)
	if infoErr != nil || errors.Join(err, err2) != nil || status.Writing == found.Writing {
		return errNotTogether // or the watches will bring what is there
	}
	return fmt.Errorf("%s is of writing %d and %s of %d, which nobody writes in one commit: the next change of the "+
		"server's state mends it, or delete both (`store rm`)", before.Key(), status.Writing, info.Key(), found.Writing)
}

// judgeTorn makes a server Broken of which the values are of two writings and stay so. It tells whether that is to be
// looked at again.
func (v *View) judgeTorn(name string, s *serverView, wrong error) (again bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.servers[name] != s || s.show(name) {
		s.torn = false
		return false
	}
	if errors.Is(wrong, errNotTogether) {
		return true
	}
	s.torn = false
	broken := &Server{Name: name, Status: s.status, Info: s.info}
	broken.State, broken.Reason = Broken, wrong.Error()
	s.shown = broken
	v.touch()
	return false
}
