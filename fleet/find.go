// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/nearest"
)

// UnknownError is about what names no experiment, or several.
type UnknownError struct {
	Found string
	Near  string   // an id or a name that was perhaps meant, or ""
	Those []string // of several: the first
	Count int      // how many there are that begin so
	Group int      // how many experiments the group has
}

// Error says what to do.
func (e *UnknownError) Error() string {
	switch {
	case e.Count > 1:
		return fmt.Sprintf("%.80q begins the ids or names of %d experiments: want more of one's id: %s", e.Found,
			e.Count, strings.Join(e.Those, ", "))
	case e.Near != "":
		return fmt.Sprintf("there is no experiment %.80q: did you mean %s?", e.Found, e.Near)
	case e.Group == 0:
		return fmt.Sprintf("there is no experiment %.80q: the group has none", e.Found)
	}
	return fmt.Sprintf("there is no experiment %.80q: `list` shows the %d that the group has", e.Found, e.Group)
}

// shownMost is how many experiments an error lists.
const shownMost = 5

// Find is the experiment that a text names: its id or its name, or the beginning of either or of the id's last part,
// where one experiment alone has it. *UnknownError.
func (c *Client) Find(ctx context.Context, found string) (*Experiment, error) {
	all, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	return find(all, found)
}

func find(all []Experiment, found string) (*Experiment, error) {
	var words []string
	for _, is := range []func(e *Experiment) bool{
		func(e *Experiment) bool { return e.ID == found },
		func(e *Experiment) bool { return e.Name() == found },
		func(e *Experiment) bool {
			return strings.HasPrefix(e.ID, found) || strings.HasPrefix(e.Name(), found) ||
				strings.HasPrefix(e.ID[strings.LastIndexByte(e.ID, '-')+1:], found)
		},
	} {
		var those []*Experiment
		for i := range all {
			if found != "" && is(&all[i]) {
				those = append(those, &all[i])
			}
		}
		if len(those) == 1 {
			return those[0], nil
		}
		if len(those) > 1 {
			several := &UnknownError{Found: found, Count: len(those), Group: len(all)}
			for _, e := range those[:min(len(those), shownMost)] {
				several.Those = append(several.Those, strings.TrimSpace(e.ID+" "+e.Name()))
			}
			return nil, several
		}
	}
	for i := range all {
		words = append(words, all[i].ID)
		if name := all[i].Name(); name != "" {
			words = append(words, name)
		}
	}
	return nil, &UnknownError{Found: found, Near: nearest.Word(found, words), Group: len(all)}
}
