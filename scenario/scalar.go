// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/printable"
	"go.yaml.in/yaml/v3"
)

// follow gives what an alias stands for. Aliases of aliases don't exist in YAML,
// so the loop runs once.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func isMerge(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge" }

// knownTag reports whether a tag is one of those that plain YAML resolves to.
func knownTag(tag string) bool {
	switch tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!merge", "!!seq", "!!map":
		return true
	}
	return false
}

// number reads a finite number in the range; want is what to say otherwise.
func (v Value) number(rng Range, want string) (float64, bool) {
	n, ok := v.take(want, yaml.ScalarNode)
	if !ok {
		return 0, false
	}
	x, ok := float(n)
	if !ok {
		todo := ""
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil && n.ShortTag() == "!!str" {
			switch {
			case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
				todo = "remove the quotes"
			case n.Style == madeStyle && v.place.within():
				todo = "a number comes of one word alone, of a column that is declared as numbers"
			}
		}
		v.Refuse(describe(n), want, todo)
		return 0, false
	}
	if d := strings.TrimLeft(n.Value, "+-"); n.ShortTag() == "!!int" && len(d) > 1 && d[0] == '0' && d[1] >= '0' &&
		d[1] <= '9' {
		v.Refuse(printable.Short(n.Value)+", which is octal to some readers of YAML and decimal to others", want,
			"write it without the leading 0")
		return 0, false
	}
	if !rng.Holds(x) {
		v.Refuse(describe(n), want, "")
		return 0, false
	}
	return x, true
}

// float gives the number that a scalar is; NaN and infinities too, for the range
// to refuse.
func float(n *yaml.Node) (float64, bool) {
	switch n.ShortTag() {
	case "!!int", "!!float":
		var x float64
		if n.Decode(&x) == nil {
			return x, true
		}
	case "!!str":
		// A number beyond float64 is not resolved as one.
		if _, err := strconv.ParseFloat(n.Value, 64); errors.Is(err, strconv.ErrRange) && n.Style == 0 {
			return math.Inf(1), true
		}
	}
	return 0, false
}

// describe says what stands at n, to be read after "found".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return describe(follow(n))
	}
	switch tag := n.ShortTag(); tag {
	case "!!null":
		if n.Value == "" {
			return "nothing"
		}
		return "null"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		if x, ok := float(n); ok && (math.IsInf(x, 0) || math.IsNaN(x)) {
			return printable.Short(n.Value) + ", which is not finite"
		}
		return printable.Short(n.Value)
	case "!!timestamp":
		return "the date " + printable.Short(n.Value)
	case "!!merge":
		return "a merge key <<"
	}
	if x, ok := float(n); ok && math.IsInf(x, 0) {
		return printable.Short(n.Value) + ", which is beyond the range of a float64"
	}
	return fmt.Sprintf("the text %q", printable.Short(n.Value))
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

func allowedFields(fields []string) string {
	if len(fields) == 0 {
		return "no field here"
	}
	if len(fields) == 1 {
		return "only the field " + fields[0]
	}
	return "only the fields " + strings.Join(fields, ", ")
}

func wholeNumber(r Range) string {
	if r.max >= intMax {
		r.max = math.MaxFloat64
	}
	if r.min <= -intMax {
		r.min = -math.MaxFloat64
	}
	return r.text("a whole number")
}
