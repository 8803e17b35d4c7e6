// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/internal/setting"
)

// step is one step of a key: the name of a field or of an item, or the number of an item.
type step struct {
	name  string
	index int // of an item written as [2]; -1: the step is a name
}

func (s step) String() string {
	if s.index >= 0 {
		return "[" + strconv.Itoa(s.index) + "]"
	}
	return KeyStep(s.name)
}

// KeyStep is a name as a step of a key: in quotes where it holds what separates steps, or
// what can't be seen.
func KeyStep(name string) string {
	if name == "" || strings.ContainsAny(name, `.[]"=,`) ||
		strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(name)
	}
	return name
}

// SplitKey cuts "key=rest" at the first = that stands in no quotes.
func SplitKey(text string) (key, rest string, found bool) { return setting.KeyOf(text) }

// parseKey reads a key: names with dots between, numbers in brackets, and names in double
// quotes where they hold a dot. It is the form in which problems name fields.
func parseKey(key string) ([]step, error) {
	var steps []step
	for rest := key; ; {
		var s step
		var err error
		if s, rest, err = parseStep(rest, len(steps) == 0); err != nil {
			return nil, err
		}
		if steps = append(steps, s); len(steps) > DepthMax {
			return nil, fmt.Errorf("more than %d steps, which is deeper than a file may be", DepthMax)
		}
		switch {
		case rest == "":
			return steps, nil
		case rest[0] == '.':
			rest = rest[1:]
		case rest[0] != '[':
			return nil, fmt.Errorf("%q after %s, want a dot", printable.Short(rest), s)
		}
	}
}

// parseStep reads one step and gives what follows it.
func parseStep(text string, first bool) (s step, rest string, err error) {
	switch {
	case text != "" && text[0] == '"':
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return s, "", fmt.Errorf("a quote that isn't closed")
		}
		name, err := strconv.Unquote(quoted)
		return step{name, -1}, text[len(quoted):], err
	case text != "" && text[0] == '[' && !first:
		inside, rest, ok := strings.Cut(text[1:], "]")
		n, err := strconv.Atoi(inside)
		if !ok || err != nil || n < 0 {
			return s, "", fmt.Errorf("%q, want the number of an item in brackets, such as [0]", printable.Short(text))
		}
		return step{index: n}, rest, nil
	}
	end := strings.IndexAny(text, `.[]"=`)
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return s, "", fmt.Errorf("an empty step, want the names of fields with dots between, such as a.b[0].c")
	}
	return step{text[:end], -1}, text[end:], nil
}

// itemNames are the fields that name the items of a list, in the order in which they are
// looked at.
var itemNames = []string{"id", "name", "event_id", "endpoint_name"}

// ItemNames lists the fields that name the items of a list: one of them, with its text,
// is what a key may have in place of the item's number.
func ItemNames() []string { return append([]string(nil), itemNames...) }
