// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// wanted is what stands in a file for a distribution.
const wanted = "a distribution, such as exponential(3), uniform(1, 2) + 0.5 or {distribution: gamma, mean: 3, cv: 0.5}"

// Read reads a distribution, which gets the field's path as its name: a number, which is constant; text such as
// exponential(3) + 0.5; or a mapping with the field distribution, those of the kind, and times, plus, min, max and
// at_least, which are applied in this order. min and max leave out what is beyond (Truncate), unless they are the
// kind's
// own. What is refused gives a Dist that isn't set.
func Read(v scenario.Value) Dist {
	v = v.Reused("distribution")
	var d Dist
	switch {
	case v.IsMapping():
		d = readMapping(v)
	case v.IsText():
		d = readText(v)
	default:
		x, ok := readNumber(v, anyRange.Or(wanted))
		if ok {
			d = Constant(x)
		}
	}
	if !d.IsSet() {
		return d
	}
	return d.Named(v.Path())
}

// Parse reads the distributions of one line: a number, or text such as exponential(3) + 0.5.
func Parse(text string) (Dist, error) {
	if x, ok := plainNumber(text); ok && anyRange.Holds(x) {
		return Constant(x), nil
	}
	d, found, want := parse(text)
	if want != "" {
		return Dist{}, fmt.Errorf("dist: found %s, want %s", found, want)
	}
	return d, nil
}

// Parsable reports whether Parse of d's text is d, number by number, but for its name: so it may travel as text.
func (d Dist) Parsable() bool {
	p, err := Parse(d.String())
	return err == nil && d.law != nil && p.law.text == d.law.text && p.law.plus == d.law.plus &&
		p.law.scale == d.law.scale && p.law.low == d.law.low
}

// readNumber reads a number and whether it was good.
func readNumber(v scenario.Value, want scenario.Range) (x float64, ok bool) {
	r := refusals(v)
	x = v.Float(want)
	return x, !r()
}

// refusals gives a function that reports whether what was read of v since is refused.
func refusals(v scenario.Value) func() bool {
	before := v.Reader().Refusals()
	return func() bool { return v.Reader().Refusals() != before }
}

func readText(v scenario.Value) Dist {
	text := v.Text()
	d, found, want := parse(text)
	if want == "" {
		return d
	}
	todo := ""
	if _, ok := plainNumber(text); ok {
		todo = "remove the quotes"
	} else if name, behind, open := strings.Cut(text, "("); open && !strings.Contains(behind, ")") {
		todo = "put it in quotes: within braces and brackets a comma ends the text"
	} else if open {
		todo = scenario.Suggest(strings.TrimSpace(name), kindNames())
	}
	v.Refuse(found, want, todo)
	return Dist{}
}

// parse reads a kind with its numbers in brackets, and perhaps a number that is added. want is empty where it is good.
func parse(text string) (d Dist, found, want string) {
	found = fmt.Sprintf("the text %q", short(text))
	name, rest, open := strings.Cut(text, "(")
	inside, behind, closed := strings.Cut(rest, ")")
	if !open || !closed {
		return d, found, wanted
	}
	k, ok := kindOf(strings.TrimSpace(name))
	if !ok {
		if slices.Contains(kindNames(), strings.TrimSpace(name)) {
			return d, found, "a mapping: {distribution: " + strings.TrimSpace(name) + ", …}"
		}
		return d, found, "one of " + strings.Join(kindNames(), ", ")
	}
	list := strings.Split(inside, ",")
	if len(list) != len(k.Parameters) {
		return d, found, k.form()
	}
	numbers := make([]float64, len(list))
	for i, p := range k.Parameters {
		x, ok := plainNumber(strings.TrimSpace(list[i]))
		if !ok || !p.Range.Holds(x) || p.Whole && x != math.Trunc(x) {
			return d, fmt.Sprintf("%s %q in %q", p.Name, short(strings.TrimSpace(list[i])), short(text)), p.want()
		}
		numbers[i] = x
	}
	d, wrong := k.of(numbers)
	if wrong.want != "" {
		return d, fmt.Sprintf("%s %s in %q", k.Parameters[wrong.index].Name, number(numbers[wrong.index]), short(text)),
			wrong.want
	}
	if behind = strings.TrimSpace(behind); behind == "" {
		return d, "", ""
	}
	sign := 1.0
	if behind[0] == '-' {
		sign = -1
	}
	by, ok := plainNumber(strings.TrimSpace(behind[1:]))
	if by *= sign; !ok || behind[0] != '+' && behind[0] != '-' || math.Signbit(by) != (sign < 0) {
		return Dist{}, fmt.Sprintf("%q behind %s) in %q", short(behind), k.Name+"("+short(inside), short(text)),
			"+ or - and a number, or nothing"
	}
	if d, ok = d.move(1, by); !ok {
		return Dist{}, found, "numbers from -1e+18 to 1e+18"
	}
	return d, "", ""
}

// want is what a parameter takes, for messages.
func (p Parameter) want() string {
	if p.Whole {
		return strings.Replace(p.Range.String(), "a number", "a whole number", 1)
	}
	return p.Range.String()
}

// read reads a parameter from a mapping.
func (p Parameter) read(v scenario.Value) float64 {
	if p.Whole {
		return float64(v.Int(p.Range))
	}
	return v.Float(p.Range)
}

// plainNumber reads a decimal number; no underscores, names or hexadecimal ones.
func plainNumber(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.+-eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// short is a text of the file for a message.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

// changes are the fields of a mapping that every kind has, in the order in which they are applied.
var changes = []string{"times", "plus", "min", "max", "at_least"}

func readMapping(v scenario.Value) Dist {
	refused := refusals(v)
	name := ""
	for _, e := range v.Entries() {
		if e.Name == "distribution" {
			name = e.Value.Word(kindNames()...)
		}
	}
	if name == "" {
		if !refused() {
			v.Section(append([]string{"distribution"}, everyField()...)...).Field("distribution").Word(kindNames()...)
		}
		return Dist{}
	}
	k, ok := kindOf(name)
	if !ok {
		return readLists(v, name)
	}
	own := []string{"distribution"}
	for _, p := range k.Parameters {
		own = append(own, p.Name)
	}
	s := open(v, own)
	numbers := make([]float64, len(k.Parameters))
	for i, p := range k.Parameters {
		numbers[i] = p.read(s.Field(p.Name))
	}
	if refused() {
		return Dist{}
	}
	d, wrong := k.of(numbers)
	if wrong.want != "" {
		s.Field(k.Parameters[wrong.index].Name).Refuse(number(numbers[wrong.index]), wrong.want, "")
		return Dist{}
	}
	return change(s, own, d)
}

// open opens a mapping with fields of its own besides the changes.
func open(v scenario.Value, own []string) scenario.Section {
	all := slices.Clone(own)
	for _, c := range changes {
		if !slices.Contains(own, c) {
			all = append(all, c)
		}
	}
	return v.Section(all...)
}

// everyField lists the fields of all kinds.
func everyField() (all []string) {
	for _, k := range kinds {
		for _, p := range k.Parameters {
			all = append(all, p.Name)
		}
	}
	all = append(append(all, "values", "weights", "sums", "samples", "file", "column"), changes...)
	slices.Sort(all)
	return slices.Compact(all)
}

// change applies the changes that a mapping has.
func change(s scenario.Section, own []string, d Dist) Dist {
	refused := refusals(s.At())
	has := func(name string) bool { return !slices.Contains(own, name) && s.Field(name).Present() }
	factor := s.Field("times").FloatOr(1, positiveRange)
	by := s.Field("plus").FloatOr(0, anyRange)
	least, most := math.Inf(-1), math.Inf(1)
	if has("min") {
		least = s.Field("min").Float(anyRange)
	}
	if has("max") {
		most = s.Field("max").Float(anyRange)
	}
	floor := s.Field("at_least").FloatOr(-numberMax, anyRange)
	if refused() {
		return Dist{}
	}
	d, ok := d.move(factor, by)
	if !ok {
		s.At().Refuse("numbers beyond ±1e+18 with times or plus", "less", "")
		return Dist{}
	}
	d, fault := d.truncate(least, most)
	if fault != "" {
		field := s.Field("max")
		if !has("max") {
			field = s.Field("min")
		}
		found, want, _ := strings.Cut(strings.TrimPrefix(fault, "found "), ", want ")
		field.Refuse(found, want, "")
		return Dist{}
	}
	if s.Field("at_least").Present() {
		d = d.AtLeast(floor)
	}
	return d
}
