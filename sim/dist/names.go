// SPDX-License-Identifier: Apache-2.0

package dist

import "sync"

// named is a name with its number. There is one for each name of a process, for ever.
type named struct {
	text string
	id   uint32
}

var names struct {
	mu   sync.Mutex
	all  map[string]*named
	byID []*named
}

// intern gives a name's entry; nil for none.
func intern(text string) *named {
	if text == "" {
		return nil
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	if names.all == nil {
		names.all = make(map[string]*named)
	}
	n := names.all[text]
	if n == nil {
		n = &named{text, uint32(len(names.all) + 1)}
		names.all[text] = n
		names.byID = append(names.byID, n)
	}
	return n
}

// NameOf is the name with an ID; "" for none.
func NameOf(id uint32) string {
	names.mu.Lock()
	defer names.mu.Unlock()
	if id == 0 || int64(id) > int64(len(names.byID)) {
		return ""
	}
	return names.byID[id-1].text
}

func (n *named) name() string {
	if n == nil {
		return ""
	}
	return n.text
}

func (n *named) number() uint32 {
	if n == nil {
		return 0
	}
	return n.id
}
