// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// Input is what every worker of a run reads alike: the scenario, with the files that it refers to, and its placed
// graph. The launcher encodes it once, into a segment that all worker processes map for reading
// (docs/format/control.md): graphs and files of many megabytes are in memory once and not once for each worker.
type Input struct {
	File     string                // the scenario's name, for messages
	Text     []byte                // the scenario file itself
	Set      []scenario.Setting    // what is put into it
	Attached []scenario.Attachment // the files that it refers to
	Kind     string                // of Packed; "": there is none, and the four above are read
	Packed   []byte                // the packed scenario
	Placed   *node.Placed          // the nodes and links, and where they are
}

// Segment is the segment that in needs.
func (in *Input) Segment() shm.Config {
	const length = 4 // of a text or a list
	n := in.Placed.Size() + length + len(in.File) + length + len(in.Text) + length + length +
		length + len(in.Kind) + length + len(in.Packed)
	for _, set := range in.Set {
		n += length + len(set.Key) + length + len(set.Value)
	}
	for _, file := range in.Attached {
		n += length + len(file.Name) + length + len(file.Text)
	}
	return shm.Config{Name: "disco-input", Kind: KindInput, Size: n}
}

// Write encodes in into the body of its Segment.
func (in *Input) Write(body []byte) error {
	if err := in.Placed.Write(body); err != nil {
		return fmt.Errorf("worker: input: %w", err)
	}
	rest := body[in.Placed.Size():]
	// With room for all of it, Append writes in place.
	written, err := wire.Append(rest[:0], in.fields)
	if err == nil && len(written) != len(rest) {
		err = fmt.Errorf("%d bytes, want %d", len(written), len(rest))
	}
	if err != nil {
		return fmt.Errorf("worker: input: %w", err)
	}
	return nil
}

// ReadInput reads what Write has put into a body. Placed, Packed, Text and the attached files' are parts of the body,
// which must stay mapped, for reading only, as long as anything of the run may use them; all else is copied.
func ReadInput(body []byte) (*Input, error) {
	placed, err := node.OpenPlaced(body)
	in := &Input{Placed: placed}
	if err == nil {
		err = wire.Decode(body[placed.Size():], in.fields)
	}
	if err != nil {
		return nil, fmt.Errorf("worker: input of %d bytes: %w", len(body), err)
	}
	return in, nil
}

func (in *Input) fields(c *wire.Codec) {
	c.String(&in.File)
	c.Bytes(&in.Text)
	wire.List(c, &in.Set, 8, func(set *scenario.Setting) {
		c.String(&set.Key)
		c.String(&set.Value)
	})
	wire.List(c, &in.Attached, 8, func(file *scenario.Attachment) {
		c.String(&file.Name)
		c.Bytes(&file.Text)
	})
	c.String(&in.Kind)
	c.Bytes(&in.Packed)
}

// load reads the scenario.
func (in *Input) load(reg scenario.Registry, opt scenario.Options) (scenario.Scenario, error) {
	if in.Kind != "" {
		return reg.Unpack(in.Kind, in.Packed)
	}
	doc, err := scenario.Parse(in.File, in.Text)
	if err != nil {
		return nil, err
	}
	if doc, err = doc.With(in.Set); err != nil {
		return nil, err
	}
	return reg.Load(doc.Attach(in.Attached), opt)
}
