// SPDX-License-Identifier: Apache-2.0

package scenario

import "fmt"

// Packer is a Scenario that can be written down as bytes that its workers are faster with than with the file: what
// Load has read, checked and worked out. It is for kinds whose files can be large; without it every worker calls Load.
// Its Kind has Unpack.
type Packer interface {
	Scenario

	// Pack appends to buf what NewHandler needs in another process of the same program. The
	// bytes are in memory once for all workers of a machine, and a worker needs of them
	// only what its own nodes are made from: parts that can be found by a node's number
	// cost the others nothing.
	Pack(buf []byte) ([]byte, error)
}

// Sometimes is a Packer that can't write down every scenario.
type Sometimes interface {
	Packer

	// Packs reports whether Pack can be called. Workers call Load where it can't.
	Packs() bool
}

// Unpacks is the name of the kind that doc asks for where that kind has Unpack for s, which Load has made of doc; ""
// where workers are to call Load.
func (r Registry) Unpacks(doc *Document, s Scenario) string {
	kind, err := r.kindOf(doc)
	if p, ok := s.(Sometimes); ok && !p.Packs() {
		return ""
	}
	if _, ok := s.(Packer); err != nil || !ok || kind.Unpack == nil {
		return ""
	}
	return kind.Name
}

// Unpack makes the scenario of a worker of what Pack has written. packed must not change as long as the scenario is in
// use, and is for reading only.
func (r Registry) Unpack(kind string, packed []byte) (Scenario, error) {
	for _, k := range r.kinds {
		if k.Name != kind || k.Unpack == nil {
			continue
		}
		s, err := k.Unpack(packed)
		if err != nil {
			return nil, err
		}
		checkHorizon(s, k.Name, "unpacked")
		return s, nil
	}
	return nil, fmt.Errorf("scenario: a packed scenario of the kind %q, which this program doesn't unpack", kind)
}
