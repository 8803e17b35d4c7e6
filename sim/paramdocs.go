// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// number writes a number the way people write it in a file.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// parameters are all fields as flags: lists as a whole, those of structs with the struct's name in front.
func (p *paramPlan) parameters() []scenario.Flag {
	all := p.root.flags("")
	for _, row := range common("") {
		switch row[0] {
		case "model", "horizon", "warmup": // the program says the one, and has flags for the others
		case "antithetic":
			all = append(all, scenario.Flag{Name: row[0], Default: row[2], Usage: row[4], Switch: true})
		default:
			unit := ""
			if row[1] != "" {
				unit = "in " + row[1] + ", "
			}
			all = append(all, scenario.Flag{Name: row[0], Default: row[2], Usage: fmt.Sprintf("`NUMBER`, %s%s: %s",
				unit, row[3], row[4])})
		}
	}
	return all
}

func (p *param) flags(prefix string) (all []scenario.Flag) {
	for _, c := range p.parts {
		if c.form == formSection {
			all = append(all, c.flags(prefix+c.name+".")...)
			continue
		}
		def := c.def
		if c.required {
			def = "none, FILE must have it"
		}
		all = append(all, scenario.Flag{Name: prefix + c.name, Default: def, Usage: c.flagUsage(),
			Switch: c.form == formBool, Text: c.form == formText})
	}
	return all
}

// flagUsage is a field in one line: value, unit, bounds, meaning.
func (p *param) flagUsage() string {
	bounds := p.allowedText()
	switch {
	case p.form == formDist:
		bounds = strings.TrimSpace(p.boundsText())
	case p.form == formBool, p.form == formText && p.choices == nil:
		bounds = ""
	}
	usage := p.unitText()
	if bounds != "" {
		usage = strings.TrimPrefix(usage+", "+bounds, ", ")
	}
	if name := p.valueName(); name != "" {
		usage = strings.TrimSuffix("`"+name+"`, "+usage, ", ")
	}
	if p.doc != "" {
		usage = strings.TrimPrefix(usage+": "+p.doc, ": ")
	}
	return usage
}

// valueName is the word for a flag's value; "" where it has none.
func (p *param) valueName() string {
	return map[form]string{formInt: "N", formFloat: "NUMBER", formText: "TEXT", formDist: "DISTRIBUTION",
		formRate: "RATES", formList: "LIST", formArray: "LIST"}[p.form]
}

func (p *param) unitText() string {
	if p.unit == "" {
		return ""
	}
	return "in " + p.unit
}

// allowedText says what a field takes.
func (p *param) allowedText() string {
	switch p.form {
	case formBool:
		return "true or false"
	case formInt:
		return strings.Replace(p.allowed.String(), "a number", "a whole number", 1)
	case formFloat:
		return p.allowed.String()
	case formText:
		if p.choices != nil {
			return strings.Join(p.choices, ", ")
		}
		return "text"
	case formDist:
		return "a distribution" + p.boundsText()
	case formRate:
		return "rates of arrivals"
	case formArray:
		return fmt.Sprintf("a list of %d: %s", p.typ.Len(), p.of.allowedText())
	case formList:
		if p.keyed() {
			return "a mapping of names"
		}
		if p.of.form == formSection {
			return "a list"
		}
		return "a list: " + p.of.allowedText()
	}
	return "a mapping"
}

// boundsText is the bounds of a distribution, behind the word.
func (p *param) boundsText() string {
	var all []string
	if p.min != nil {
		all = append(all, ">= "+number(*p.min))
	}
	if p.above != nil {
		all = append(all, "> "+number(*p.above))
	}
	if p.max != nil {
		all = append(all, "<= "+number(*p.max))
	}
	if all == nil {
		return ""
	}
	return " " + strings.Join(all, " and ")
}

// rows are the cells of the documentation, a row for each field: name, unit, default, allowed, meaning.
func (p *param) rows(prefix string) (all [][]string) {
	for _, c := range p.parts {
		if c.isKey {
			continue
		}
		def := c.def
		switch {
		case c.required:
			def = "required"
		case c.form == formSection:
			def = ""
		case c.form == formText && def == "":
			def = "none"
		}
		all = append(all, []string{prefix + c.name, c.unit, def, c.allowedText(), c.doc})
		switch {
		case c.form == formSection:
			all = append(all, c.rows(prefix+c.name+".")...)
		case c.of != nil && c.of.form == formSection:
			step := "[]."
			if c.keyed() {
				step = ".NAME."
			}
			all = append(all, c.of.rows(prefix+c.name+step)...)
		}
	}
	return all
}

// common are the rows of the fields that every model has.
func common(name string) [][]string {
	return [][]string{{"model", "", name, name, "the model's name"},
		{"horizon", "s", "that of the model, else required", "a number > 0", "end of the simulated time"},
		{"warmup", "s", "0", "a number >= 0, or auto", "statistics begin here"},
		{"antithetic", "", "false", "true or false", "replications in pairs of opposite random numbers"},
		{"epoch_limit", "", fmt.Sprint(epochLimitDefault), "a whole number >= 1",
			"most that one node does at one time"}}
}

// describe is the documentation of a model's file in one of the formats of scenario.Kind.
func (p *paramPlan) describe(name, format string) []byte {
	switch format {
	case scenario.FieldsMarkdown:
		return []byte(p.markdown(name))
	case scenario.FieldsSchema:
		return p.schema(name)
	}
	return []byte(p.text(name))
}

var heading = []string{"field", "unit", "default", "allowed", "meaning"}

// markdown is the documentation of a model's file as a table in Markdown.
func (p *paramPlan) markdown(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|---|---|---|---|---|\n", strings.Join(heading, " | "))
	for _, row := range append(common(name), p.root.rows("")...) {
		for i, cell := range row {
			cell = strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell)
			if i == 0 || i == 2 && cell != "" && cell != "required" && !strings.Contains(cell, " ") {
				cell = "`" + cell + "`"
			}
			fmt.Fprintf(&b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// text is the documentation of a model's file for a terminal.
func (p *paramPlan) text(name string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, append(common(name), p.root.rows("")...)...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// schema is the JSON Schema of a model's file, for editors. It allows what stands in one place only; rules between
// fields of a distribution are left to the reader.
func (p *paramPlan) schema(name string) []byte {
	list := object{
		{"model", object{{"const", name}, {"description", "the model's name"}}},
		{"horizon", object{{"type", "number"}, {"exclusiveMinimum", 0}, {"description",
			"end of the simulated time, s"}}},
		{"warmup", object{{"anyOf", []object{{{"type", "number"}, {"minimum", 0}}, {{"const", scenario.WarmupAuto}}}},
			{"default", 0}, {"description",
				"statistics begin here, s"}}},
		{"antithetic", object{{"type", "boolean"}, {"default", false},
			{"description", "replications in pairs of opposite random numbers"}}},
		{"epoch_limit", object{{"type", "integer"}, {"minimum", 1}, {"default", epochLimitDefault},
			{"description", "most that one node does at one time"}}},
	}
	section := p.root.sectionSchema(list)
	all := append(object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", name}}, section...)
	all = append(all, member{"$defs", object{{"distribution", distSchema()}, {"rate", rateSchema()}}})
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		panic(err) // texts and finite numbers only
	}
	return append(text, '\n')
}

// sectionSchema is the schema of a mapping; properties are those that it has besides its own.
func (p *param) sectionSchema(properties object) object {
	required := []string{}
	for _, c := range p.parts {
		if c.isKey {
			continue
		}
		properties = append(properties, member{c.name, c.valueSchema()})
		if c.required {
			required = append(required, c.name)
		}
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties",
		false}}
}

func (p *param) valueSchema() object {
	s := p.typeSchema()
	if text := strings.TrimPrefix(p.doc+", "+p.unit, ", "); strings.TrimSuffix(text, ", ") != "" {
		s = append(s, member{"description", strings.TrimSuffix(text, ", ")})
	}
	if p.value != nil {
		into := reflect.New(p.typ).Elem()
		p.fill(into, p.name)
		switch {
		case p.form <= formText:
			s = append(s, member{"default", into.Interface()})
		case p.form == formDist:
			s = append(s, member{"default", p.def})
		}
	}
	return s
}

func (p *param) typeSchema() (s object) {
	switch p.form {
	case formBool:
		return object{{"type", "boolean"}}
	case formInt:
		return append(object{{"type", "integer"}}, p.boundsSchema()...)
	case formFloat:
		return append(object{{"type", "number"}}, p.boundsSchema()...)
	case formText:
		if p.choices != nil {
			return object{{"enum", p.choices}}
		}
		return object{{"type", "string"}, {"minLength", 1}}
	case formDist:
		return object{{"$ref", "#/$defs/distribution"}}
	case formRate:
		return object{{"$ref", "#/$defs/rate"}}
	case formSection:
		return p.sectionSchema(object{})
	}
	if p.form == formList && p.keyed() {
		return object{{"type", "object"}, {"additionalProperties", p.of.typeSchema()}}
	}
	s = object{{"type", "array"}, {"items", p.of.typeSchema()}}
	if p.form == formArray {
		s = append(s, member{"minItems", p.typ.Len()}, member{"maxItems", p.typ.Len()})
	}
	return s
}

// boundsSchema is what a number may be: by its tags and its type.
func (p *param) boundsSchema() (s object) {
	low, high := limits(p.typ)
	if p.min != nil {
		low = max(low, *p.min)
	}
	if p.max != nil {
		high = min(high, *p.max)
	}
	if p.above != nil && *p.above >= low {
		s = append(s, member{"exclusiveMinimum", *p.above})
	} else if low > -math.MaxFloat64 {
		s = append(s, member{"minimum", low})
	}
	if high < math.MaxFloat64 {
		s = append(s, member{"maximum", high})
	}
	return s
}

// distSchema is what stands in a file for a distribution.
func distSchema() object {
	numbers := object{{"type", "number"}}
	list := object{{"type", "array"}, {"items", numbers}, {"minItems", 1}}
	kind := func(name string, required []string, own object) object {
		properties := object{{"distribution", object{{"const", name}}}}
		for _, m := range append(own, member{"times", numbers}, member{"plus", numbers}, member{"min", numbers},
			member{"max", numbers}, member{"at_least", numbers}) {
			if !has(properties, m.name) {
				properties = append(properties, m)
			}
		}
		return object{{"type", "object"}, {"properties", properties},
			{"required", append([]string{"distribution"}, required...)}, {"additionalProperties", false}}
	}
	forms := []object{numbers, {{"type", "string"}, {"pattern", `^ *[a-z_]+ *\([^()]*\) *([+-] *[0-9.eE+-]+ *)?$`}}}
	for _, k := range dist.Kinds() {
		var own object
		var required []string
		for _, q := range k.Parameters {
			typ := "number"
			if q.Whole {
				typ = "integer"
			}
			own = append(own, member{q.Name, object{{"type", typ}, {"description", q.Range.String()}}})
			required = append(required, q.Name)
		}
		forms = append(forms, kind(k.Name, required, own))
	}
	text := object{{"type", "string"}}
	forms = append(forms, kind("discrete", []string{"values"}, object{{"values", list}, {"weights", list}}),
		kind("empirical", nil, object{{"samples", list}, {"file", text}, {"column", object{{"type", "integer"}}}}),
		kind("linear", []string{"values", "sums"}, object{{"values", list}, {"sums", list}}))
	return object{{"anyOf", forms}}
}

func has(o object, name string) bool {
	for _, m := range o {
		if m.name == name {
			return true
		}
	}
	return false
}

// rateSchema is what stands in a file for a rate.
func rateSchema() object {
	number := object{{"type", "number"}, {"minimum", 0}}
	step := object{{"type", "object"}, {"properties", object{{"from", number}, {"rate", number}}},
		{"required", []string{"from", "rate"}}, {"additionalProperties", false}}
	list := object{{"type", "array"}, {"items", step}, {"minItems", 1}}
	return object{{"anyOf", []object{{{"type", "number"}, {"exclusiveMinimum", 0}}, list, {{"type", "object"},
		{"properties", object{{"rates", list}, {"period", object{{"type", "number"}, {"exclusiveMinimum", 0}}}}},
		{"required", []string{"rates"}}, {"additionalProperties", false}}}}}
}
