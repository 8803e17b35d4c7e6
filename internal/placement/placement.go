// SPDX-License-Identifier: Apache-2.0

// Package placement reads which worker is to host which node, as a person wants it.
//
// Guarantee: every name that is no node, and every number that is no worker of the run, is
// found, with its line and column and what is allowed there. Errors about the contents are
// scenario.Problems.
//
//	pins, err := placement.Read(path)
//	workerOf, err := pins.Resolve(graph, workers)
package placement

import (
	"fmt"
	"strconv"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"go.yaml.in/yaml/v3"
)

// Pins puts nodes on workers by name. In a file it is YAML, one
// line a node:
//
//	srv-1: 0
//	srv-2: 1
//
// Nodes that are not named are placed automatically. A Pins doesn't change once it
// is made.
type Pins struct {
	file string
	pins []pin
}

// pin is one line.
type pin struct {
	name         string
	worker       int
	line, column int // of the name
	at           int // column of the worker
}

// Read reads a placement file.
func Read(path string) (*Pins, error) {
	text, err := infile.Read(path, infile.Kind{Name: "a placement file with one line `node: worker` a node",
		BytesMax: scenario.FileBytesMax})
	if err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	return Parse(path, text)
}

// Parse reads the text of a placement file; name stands for it in messages.
func Parse(name string, text []byte) (*Pins, error) {
	// Parse bounds the tree and finds what isn't YAML; it reads no tree whose field
	// names the file chooses at the top level, which is all that there is here.
	if _, err := scenario.Parse(name, text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Pins{file: name}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, scenario.Problems{{File: name, Line: root.Line, Column: root.Column, Found: describe(root),
			Want: "one line `node: worker` a node"}}
	}
	var problems scenario.Problems
	seen := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		line, problem := readPin(key, value, seen)
		if problem != nil {
			problem.File = name
			problems = append(problems, *problem)
			continue
		}
		seen[line.name] = line.line
		p.pins = append(p.pins, line)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// Of makes Pins of names and their workers.
func Of(names []string, workers []int) *Pins {
	p := &Pins{file: "placement"}
	for i, name := range names {
		p.pins = append(p.pins, pin{name: name, worker: workers[i]})
	}
	return p
}

// readPin reads one line; seen has the lines of the names before it.
func readPin(key, value *yaml.Node, seen map[string]int) (pin, *scenario.Problem) {
	p := pin{name: key.Value, line: key.Line, column: key.Column, at: value.Column}
	if key.Kind != yaml.ScalarNode {
		return p, &scenario.Problem{Line: key.Line, Column: key.Column, Found: describe(key),
			Want: "the name of a node"}
	}
	if first, ok := seen[p.name]; ok {
		return p, &scenario.Problem{Line: key.Line, Column: key.Column, Field: p.name,
			Found: fmt.Sprintf("the node a second time (the first is on line %d)", first), Want: "every node once"}
	}
	w, err := strconv.Atoi(value.Value)
	if value.Kind != yaml.ScalarNode || err != nil {
		return p, &scenario.Problem{Line: value.Line, Column: value.Column, Field: p.name, Found: describe(value),
			Want: "the number of a worker, 0 for the first"}
	}
	p.worker = w
	return p, nil
}

// describe names the value at n, for a message after "found".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "the alias *" + n.Value
	}
	if n.Value == "" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}

// Resolve gives the worker by node index. Every name must be a node of g and every
// worker one of those that will run.
func (p *Pins) Resolve(g *node.Structure, workers int) (map[int]int32, error) {
	if p == nil {
		return nil, nil
	}
	find, pinned := g.IndexNodes(), make(map[int]int32, len(p.pins))
	var problems scenario.Problems
	var names []string
	for _, line := range p.pins {
		i, ok := find(line.name)
		if !ok {
			if names == nil {
				names = namesOf(g)
			}
			problems = append(problems, scenario.Problem{
				File: p.file, Line: line.line, Column: line.column, Field: line.name,
				Found: "a node that the scenario doesn't " +
					"have", Want: nodesOf(names), ToDo: scenario.Suggest(line.name, names),
			})
			continue
		}
		if line.worker < 0 || line.worker >= workers {
			problems = append(problems, scenario.Problem{
				File: p.file, Line: line.line, Column: line.at, Field: line.name,
				Found: fmt.Sprintf("worker %d", line.worker), Want: workersOf(workers),
			})
			continue
		}
		pinned[i] = int32(line.worker)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return pinned, nil
}

func namesOf(g *node.Structure) []string {
	names := make([]string, g.NumNodes())
	for n := range names {
		names[n] = g.NodeName(n)
	}
	return names
}

// namesShown bounds how many nodes a message lists.
const namesShown = 12

func nodesOf(names []string) string {
	text := "one of its nodes: "
	for i, name := range names {
		if i == namesShown {
			return text + fmt.Sprintf(", … (%d in all)", len(names))
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}

func workersOf(workers int) string {
	if workers == 1 {
		return "0, the only worker of this run"
	}
	return fmt.Sprintf("0 to %d: this run has %d workers", workers-1, workers)
}
