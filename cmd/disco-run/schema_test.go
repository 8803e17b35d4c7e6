// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var updateSchema = flag.Bool("update-schema", false, "write testdata/schema.txt anew")

// schemas are those of all kinds, made once, and their texts.
var (
	schemas     = map[string]*jsonschema.Schema{}
	schemaTexts = map[string][]byte{}
)

func schemaOf(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	if s := schemas[kind]; s != nil {
		return s
	}
	registry, err := scenario.NewRegistry(kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	schemaTexts[kind] = registry.Schema(kind)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaTexts[kind]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("file:///"+kind+".json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("file:///" + kind + ".json") // holds it to the metaschema of its draft, too
	if err != nil {
		t.Fatal(err)
	}
	schemas[kind] = s
	return s
}

// plain is a YAML tree as a validator takes it; ok is false where JSON has no such value.
func plain(n *yaml.Node) (v any, ok bool) {
	if n.Decode(&v) != nil {
		return nil, false
	}
	ok = true
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		case map[any]any:
			ok = false
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case time.Time:
			return v.String()
		case float64:
			ok = ok && !math.IsInf(v, 0) && !math.IsNaN(v)
		}
		return v
	}
	return walk(v), ok
}

// loaded is what a kind's Load says of a text.
func loaded(t *testing.T, file string, text []byte) error {
	t.Helper()
	registry, err := scenario.NewRegistry(kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.Parse(file, text)
	if err != nil {
		return err
	}
	if doc, err = registry.Attach(doc, nil); err != nil {
		return err
	}
	_, err = registry.Load(doc, scenario.Options{})
	return err
}

// kindOf is the kind that a file names.
func kindOf(n *yaml.Node) string {
	var head struct{ Model string }
	if n.Decode(&head) != nil || head.Model == "" {
		return kinds()[0].Name
	}
	return head.Model
}

func parsed(t *testing.T, text []byte) *yaml.Node {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

// TestSchemaExamples: every example is valid, and what is made of it by one change is valid where Load takes it, and
// invalid where Load doesn't know a field of it.
func TestSchemaExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("loads thousands of files")
	}
	files, err := filepath.Glob("../../examples/*.yml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	taken, unknown := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := parsed(t, text)
		kind := kindOf(root)
		s := schemaOf(t, kind)
		if v, ok := plain(root); !ok {
			t.Errorf("%s is no JSON", file)
		} else if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if strings.Contains(string(text), "graph:") { // needs a database
			continue
		}
		for _, c := range changes(root) {
			changed, v, ok := c.made(root)
			if !ok {
				continue
			}
			loads, valid := loaded(t, file, changed), s.Validate(v)
			switch {
			case loads == nil && valid != nil:
				t.Errorf("%s with %s is good, and not valid: %v", file, c, valid)
			case loads == nil:
				taken++
			case strings.Contains(loads.Error(), "an unknown field"):
				if unknown++; valid == nil {
					t.Errorf("%s with %s is valid: %v", file, c, loads)
				}
			}
		}
	}
	t.Logf("%d changed files are good, in %d a field is unknown", taken, unknown)
	if taken < 110 || unknown < 20 {
		t.Errorf("%d changed files are good, in %d a field is unknown: that is too few to tell", taken, unknown)
	}
}

// change is a place in a tree of YAML, and what to put there.
type change struct {
	path []int
	what string // of changesOf
}

func (c change) String() string { return fmt.Sprint(c.what, " at ", c.path) }

// changes lists changes of all places of a small tree, of every so-manieth of a large one.
func changes(root *yaml.Node) (all []change) {
	var walk func(n *yaml.Node, path []int)
	walk = func(n *yaml.Node, path []int) {
		for what := range changesOf(n) {
			all = append(all, change{slices.Clone(path), what})
		}
		for i, child := range n.Content {
			if n.Kind != yaml.MappingNode || i%2 == 1 {
				walk(child, append(path[:len(path):len(path)], i))
			}
		}
	}
	walk(root, nil)
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(slices.Compare(a.path, b.path), strings.Compare(a.what, b.what))
	})
	const most = 500
	if step := (len(all) + most - 1) / most; step > 1 {
		kept := all[:0]
		for i := 0; i < len(all); i += step {
			kept = append(kept, all[i])
		}
		all = kept
	}
	return all
}

// changesOf are the values that are put in the place of one.
func changesOf(n *yaml.Node) map[string]*yaml.Node {
	scalar := func(tag, value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value} }
	all := map[string]*yaml.Node{"nothing": nil, "0": scalar("!!int", "0"), "1": scalar("!!int", "1"),
		"2.5": scalar("!!float", "2.5"), "text": scalar("!!str", "x"),
		"exponential(1)": scalar("!!str", "exponential(1)"),
		"empty":          {Kind: yaml.MappingNode, Tag: "!!map"}, "list": {Kind: yaml.SequenceNode, Tag: "!!seq"},
		"null": scalar("!!null", "null")}
	switch n.Kind {
	case yaml.MappingNode:
		c := *n
		c.Content = append(slices.Clone(n.Content), scalar("!!str", "unknown_field"), scalar("!!int", "1"))
		all["more"] = &c
	case yaml.SequenceNode:
		if len(n.Content) > 0 {
			c := *n
			c.Content = append(slices.Clone(n.Content), n.Content[0])
			all["again"] = &c
		}
	}
	return all
}

// made is the changed text and tree; ok is false where that is none.
func (c change) made(root *yaml.Node) (text []byte, v any, ok bool) {
	changed := replaced(root, c.path, c.what)
	if changed == nil {
		return nil, nil, false
	}
	text, err := yaml.Marshal(changed)
	var again yaml.Node
	if err != nil || yaml.Unmarshal(text, &again) != nil || len(again.Content) == 0 { // a comment can get in the way
		return nil, nil, false
	}
	v, ok = plain(again.Content[0])
	return text, v, ok
}

func replaced(n *yaml.Node, path []int, what string) *yaml.Node {
	if len(path) == 0 {
		return changesOf(n)[what]
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	i := path[0]
	c.Content[i] = replaced(n.Content[i], path[1:], what)
	if c.Content[i] == nil {
		first := i
		if n.Kind == yaml.MappingNode {
			first--
		}
		c.Content = slices.Delete(c.Content, first, i+1)
	}
	return &c
}

// TestSchemaOpen: nothing is left open but what is listed here.
func TestSchemaOpen(t *testing.T) {
	// The items of a graph section are any values; how many parallel cables there are, Load has to count.
	known := []string{"item", "parallel"}
	for _, k := range kinds() {
		var tree any
		schemaOf(t, k.Name)
		if err := json.Unmarshal(schemaTexts[k.Name], &tree); err != nil {
			t.Fatal(err)
		}
		var walk func(v any)
		walk = func(v any) {
			m, _ := v.(map[string]any)
			list, _ := v.([]any)
			if m["$comment"] != nil {
				t.Errorf("%s: a section is left open: %v", k.Name, m)
			}
			fields, _ := m["properties"].(map[string]any)
			for name, of := range fields {
				f, ok := of.(map[string]any)
				if delete(f, "description"); ok && len(f) == 0 && !slices.Contains(known, name) {
					t.Errorf("%s: the field %s is left open", k.Name, name)
				}
			}
			for _, v := range m {
				walk(v)
			}
			for _, v := range list {
				walk(v)
			}
		}
		walk(tree)
	}
}

// TestSchemaAbout: each field has a text, and each text is of a field.
func TestSchemaAbout(t *testing.T) {
	for _, k := range kinds() {
		described := k.Described()
		if len(described) < 10 {
			t.Errorf("%s: %d fields", k.Name, len(described))
		}
		for field, about := range described {
			if about == "" && !strings.HasPrefix(field, "graph.") {
				t.Errorf("%s: nothing is said about %s", k.Name, field)
			}
		}
		for key := range k.About {
			of := func(field string) bool { return field == key || strings.HasSuffix(field, "."+key) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(described)), of) {
				t.Errorf("%s: there is a text about %s, which is no field", k.Name, key)
			}
		}
	}
}

// TestSchemaRefused: of the files that Load refuses, those that are wrong in their form are invalid.
// testdata/schema.txt lists the others, which are wrong in their meaning: they are valid.
func TestSchemaRefused(t *testing.T) {
	files, err := filepath.Glob("../../model/*/testdata/invalid/*.yml")
	if err != nil || len(files) < 300 {
		t.Fatalf("%d refused files: %v", len(files), err)
	}
	var b strings.Builder
	invalid := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(file, string(filepath.Separator))
		kind, name := parts[3], strings.TrimSuffix(parts[len(parts)-1], ".yml")
		want, err := os.ReadFile(strings.TrimSuffix(file, ".yml") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var n yaml.Node
		if yaml.Unmarshal(text, &n) != nil || len(n.Content) == 0 {
			invalid++ // an editor says so without a schema
			continue
		}
		v, ok := plain(n.Content[0])
		if !ok || schemaOf(t, kind).Validate(v) != nil {
			invalid++
			continue
		}
		_, message, _ := strings.Cut(strings.TrimSpace(string(want)), ": ")
		if strings.Contains(message, "an unknown field") {
			t.Errorf("%s is valid: %s", file, message)
		}
		fmt.Fprintf(&b, "%s/%s %s\n", kind, name, message)
	}
	got := fmt.Sprintf("%d of %d refused files are invalid; valid are:\n%s", invalid, len(files), b.String())
	modeltest.Golden(t, "testdata/schema.txt", got, *updateSchema)
}
