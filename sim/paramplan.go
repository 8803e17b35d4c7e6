// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// paramPlan is how a struct of parameters is read, and what is written about it: all from its fields and their tags.
// It is made once for each kind and never changes.
type paramPlan struct {
	root *param // a section
}

// form is what stands in a file for a parameter.
type form uint8

const (
	formBool form = iota
	formInt
	formFloat
	formText
	formDist
	formRate
	formSection // a struct: a mapping
	formList    // a slice: a list, or a mapping where its elements have a key
	formArray   // a list of a fixed length
)

// param is a field of a struct of parameters, or an element of one.
type param struct {
	place    string // in Go, for messages: Params.Agents
	name     string // in the file
	index    int    // of the field in its struct
	typ      reflect.Type
	form     form
	isKey    bool // its value is the name of the entry
	required bool
	varies   bool // it may change under a saved state

	min, max, above *float64
	allowed         scenario.Range // of a number
	choices         []string
	unit, doc       string

	def   string // as in YAML; of use unless required
	value *scenario.Document

	of    *param   // what a list or array consists of
	parts []*param // of a section
}

// reserved are the fields that every model has at the top level of its file.
var reserved = []string{"model", "horizon", "warmup", "antithetic", "epoch_limit", "debug"}

var (
	distType = reflect.TypeFor[dist.Dist]()
	rateType = reflect.TypeFor[dist.Rate]()
)

// planParams makes the plan of a struct type. The error names the Go field at fault, and what to do.
func planParams(t reflect.Type) (*paramPlan, error) {
	if t.Kind() != reflect.Struct || t == distType || t == rateType {
		return nil, fmt.Errorf("sim: parameters of type %v: want a struct", t)
	}
	root := &param{place: t.Name(), typ: t, form: formSection}
	if root.place == "" {
		root.place = "struct"
	}
	if err := root.planParts(nil); err != nil {
		return nil, err
	}
	for _, p := range root.parts {
		if slices.Contains(reserved, p.name) {
			return nil, p.fault("the name %s belongs to a field that every model has: give it another, with yaml:%q",
				p.name,
				"my_"+p.name)
		}
	}
	if root.hasKey() {
		return nil, root.fault("a key outside of a list: take ,key away")
	}
	return &paramPlan{root}, nil
}

// fault is the error about a field.
func (p *param) fault(format string, args ...any) error {
	return fmt.Errorf("sim: parameter %s: %s", p.place, fmt.Sprintf(format, args...))
}

// planParts plans the fields of a struct. around are the structs that it is in.
func (p *param) planParts(around []reflect.Type) error {
	if slices.Contains(around, p.typ) {
		return p.fault("the type %v contains itself: a file would have no end", p.typ)
	}
	around = append(slices.Clip(around), p.typ)
	for i := range p.typ.NumField() {
		f := p.typ.Field(i)
		if f.Tag.Get("yaml") == "-" {
			continue
		}
		c := &param{place: p.place + "." + f.Name, index: i, typ: f.Type}
		switch {
		case f.Anonymous:
			return c.fault("an embedded struct: give the field a name, or leave it out with yaml:\"-\"")
		case !f.IsExported():
			return c.fault("it can't be set: begin its name with a capital letter, or leave it out with yaml:\"-\"")
		}
		if err := c.planField(f, around); err != nil {
			return err
		}
		for _, other := range p.parts {
			if other.name == c.name {
				return c.fault("%s has the name %s too: give one of them another, with yaml:\"…\"", other.place, c.name)
			}
			if other.isKey && c.isKey {
				return c.fault("%s is the key already", other.place)
			}
		}
		p.parts = append(p.parts, c)
	}
	return nil
}

// planField plans a field with its tags.
func (p *param) planField(f reflect.StructField, around []reflect.Type) error {
	tags, err := p.tags(string(f.Tag))
	if err != nil {
		return err
	}
	name, option, _ := strings.Cut(tags["yaml"], ",")
	if p.name = name; name == "" {
		p.name = snake(f.Name)
	}
	if !goodName.MatchString(p.name) {
		return p.fault("the name %q in the tag yaml: want letters, digits, - and _", p.name)
	}
	if p.isKey = option == "key"; option != "" && !p.isKey {
		return p.fault("the option %q in the tag yaml: want none, or key", option)
	}
	if p.isKey && f.Type.Kind() != reflect.String {
		return p.fault("a key of type %v: want a string", f.Type)
	}
	p.unit, p.doc = tags["unit"], tags["doc"]
	if text, has := tags["varies"]; has && (text != "true" || p.isKey) {
		return p.fault("the tag varies:%q: want true, and not of a key", text)
	} else if has {
		p.varies = true
	}
	if err := p.planType(tags, around); err != nil {
		return err
	}
	if p.hasKey() {
		return p.fault("a key outside of a list: take ,key away")
	}
	text, has := tags["default"]
	if p.required = !has && !p.optional(); !has {
		return nil
	}
	if p.form == formSection || p.isKey {
		return p.fault("a default for a struct or a key: give its fields theirs")
	}
	return p.planDefault(text)
}

var goodName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// optional reports whether a section can be left out, since all that is in it can.
func (p *param) optional() bool {
	return p.form == formSection && !slices.ContainsFunc(p.parts, func(c *param) bool { return c.required })
}

// planDefault checks a default the way a file is checked, and keeps it as a document of its own.
func (p *param) planDefault(text string) error {
	p.def = text
	if p.form == formText && text == "" {
		return nil // no file can give this
	}
	doc, err := scenario.Parse("default", []byte("value: "+text+"\n"))
	if err == nil {
		p.value = doc
		err = p.readDefault(reflect.New(p.typ).Elem(), p.name)
	}
	if err != nil {
		return p.fault("the tag default:%q: %v", text, err)
	}
	return nil
}

// planType finds what stands in a file for a type.
func (p *param) planType(tags map[string]string, around []reflect.Type) error {
	switch k := p.typ.Kind(); {
	case p.typ == distType:
		p.form = formDist
	case p.typ == rateType:
		p.form = formRate
	case p.typ.String() == "time.Duration":
		return p.fault("times are simulated seconds: want float64")
	case k == reflect.Bool:
		p.form = formBool
	case k >= reflect.Int && k <= reflect.Uint64:
		p.form = formInt
	case k == reflect.Float32 || k == reflect.Float64:
		p.form = formFloat
	case k == reflect.String:
		p.form = formText
	case k == reflect.Struct:
		p.form = formSection
		if err := p.planParts(around); err != nil {
			return err
		}
	case k == reflect.Slice || k == reflect.Array:
		return p.planList(tags, around)
	case k == reflect.Map:
		return p.fault("a map has no order, and results would depend on it: want a slice of structs with a field for " +
			"the name, tagged yaml:\"name,key\"; in the file it is a mapping all the same")
	case k == reflect.Pointer:
		return p.fault("a pointer: want %v itself; what can be left out has a default", p.typ.Elem())
	default:
		return p.fault("the type %v: want a bool, number, string, dist.Dist, dist.Rate, struct, slice or array", p.typ)
	}
	return p.planBounds(tags)
}

// planList plans a slice or an array; bounds and choices are those of its elements.
func (p *param) planList(tags map[string]string, around []reflect.Type) error {
	p.form = formList
	if p.typ.Kind() == reflect.Array {
		p.form = formArray
	}
	p.of = &param{place: p.place + "[]", name: p.name, typ: p.typ.Elem(), unit: p.unit, required: true}
	if err := p.of.planType(tags, around); err != nil {
		return err
	}
	if p.form == formArray && p.keyed() {
		return p.fault("an array whose elements have a key: want a slice")
	}
	return nil
}

// keyed reports whether a list is a mapping in the file.
func (p *param) keyed() bool { return p.of.hasKey() }

func (p *param) hasKey() bool {
	return slices.ContainsFunc(p.parts, func(c *param) bool { return c.isKey })
}

// planBounds reads min, max, above and choices.
func (p *param) planBounds(tags map[string]string) error {
	numbers := p.form == formInt || p.form == formFloat
	for name, to := range map[string]**float64{"min": &p.min, "max": &p.max, "above": &p.above} {
		text, has := tags[name]
		if !has {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		switch {
		case !numbers && p.form != formDist:
			return p.fault("the tag %s:%q on %v: bounds are for numbers and distributions", name, text, p.typ)
		case err != nil || math.IsNaN(x) || math.IsInf(x, 0) || p.form == formInt && x != math.Trunc(x):
			return p.fault("the tag %s:%q: want a finite number, whole for a whole one", name, text)
		}
		*to = &x
	}
	if p.min != nil && p.above != nil {
		return p.fault("both the tags min and above: want one of them")
	}
	low, high := limits(p.typ)
	if p.min != nil {
		low = max(low, *p.min)
	}
	if p.max != nil {
		high = min(high, *p.max)
	}
	if p.allowed = scenario.AtLeast(low).AtMost(high); p.above != nil && *p.above >= low {
		p.allowed = scenario.MoreThan(*p.above).AtMost(high)
		low = *p.above
	}
	if low > high || p.above != nil && low == high {
		return p.fault("its bounds leave no number, from %v to %v", low, high)
	}
	text, has := tags["choices"]
	if !has {
		return nil
	}
	if p.form != formText {
		return p.fault("the tag choices:%q on %v: choices are for strings", text, p.typ)
	}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" || slices.Contains(p.choices, word) {
			return p.fault("the tag choices:%q: want different words with commas between them", text)
		}
		p.choices = append(p.choices, word)
	}
	return nil
}

// limits are the numbers that a type holds.
func limits(t reflect.Type) (low, high float64) {
	switch k := t.Kind(); {
	case k >= reflect.Int8 && k <= reflect.Int32:
		high = math.Ldexp(1, t.Bits()-1)
		return -high, high - 1
	case k >= reflect.Uint8 && k <= reflect.Uint32:
		return 0, math.Ldexp(1, t.Bits()) - 1
	case k == reflect.Uint || k == reflect.Uint64:
		return 0, math.MaxFloat64 // Value.Int stays below 2⁵³
	case k == reflect.Float32:
		return -math.MaxFloat32, math.MaxFloat32
	}
	return -math.MaxFloat64, math.MaxFloat64
}

// tagNames are the tags that mean something here.
var tagNames = []string{"yaml", "min", "max", "above", "default", "unit", "doc", "choices", "varies"}

// tags takes a field's tags apart. reflect takes what isn't well formed, and names that nobody reads, for no tags.
func (p *param) tags(text string) (map[string]string, error) {
	all := map[string]string{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		name, behind, ok := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(behind)
		if !ok || err != nil || quoted[0] != '"' {
			return nil, p.fault("the tags %q: want name:\"value\" with spaces between them", text)
		}
		if _, again := all[name]; again || !slices.Contains(tagNames, name) {
			return nil, p.fault("the tag %s: want one of %s, each once; %s", name, strings.Join(tagNames, ", "),
				strings.TrimSpace(scenario.Suggest(name,
					tagNames)+" other packages' tags belong to a type of their own"))
		}
		all[name], _ = strconv.Unquote(quoted)
		rest = behind[len(quoted):]
	}
	return all, nil
}

// snake is a Go name in snake case: MeanTime is mean_time, CPUCores is cpu_cores.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		if i > 0 && unicode.IsUpper(c) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) &&
			unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// varying are the paths of the fields that may change under a saved state, as scenario.Vary has them.
func (p *param) varying(path string) (paths []string) {
	if p.varies {
		return []string{path}
	}
	switch p.form {
	case formSection:
		for _, c := range p.parts {
			paths = append(paths, c.varying(strings.TrimPrefix(path+"."+c.name, "."))...)
		}
	case formList, formArray:
		item := path + "[]"
		if p.keyed() {
			item = path + ".*"
		}
		paths = p.of.varying(item)
	}
	return paths
}
