// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

type policy string

type testStation struct {
	Name    string    `yaml:"name,key" doc:"which one"`
	Service dist.Dist `unit:"s" above:"0"`
	Servers uint16    `min:"1" default:"1" doc:"how many are served at a time"`
}

type testLimits struct {
	Queue int     `default:"10" min:"0"`
	Share float32 `default:"0.5" min:"0" max:"1"`
}

type testParams struct {
	Arrivals dist.Rate     `unit:"1/s" doc:"of customers"`
	Timeout  dist.Dist     `unit:"s" min:"0" default:"exponential(3) + 1" doc:"how long a customer waits"`
	Policy   policy        `choices:"fifo, lifo" default:"fifo"`
	Title    string        `default:""`
	Verbose  bool          `default:"false"`
	MeanCPU  float64       `above:"0" max:"8"`
	Offset   int8          `default:"-3"`
	Big      uint64        `default:"7"`
	Weights  []float64     `min:"0" default:"[1, 2]"`
	Corners  [2]int        `default:"[0, 4]"`
	Delays   []dist.Dist   `default:"[exponential(1), 2]"`
	Limits   testLimits    `doc:"what is refused"`
	Stations []testStation `doc:"in this order"`
	Grid     [][]int       `default:"[]"`
	Left     func()        `yaml:"-"`
}

const goodFile = `
model: shop
horizon: 100
arrivals: 5
mean_cpu: 2.5
stations:
  web: { service: "uniform(1, 2)", servers: 3 }
  "a b": { service: 2 }
`

func testPlan(t testing.TB) *paramPlan {
	t.Helper()
	plan, err := planParams(reflect.TypeFor[testParams]())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func readParams(t testing.TB, plan *paramPlan, text string, into any) error {
	t.Helper()
	doc, err := scenario.Parse("shop.yml", []byte(text))
	if err != nil {
		t.Skip(err)
	}
	r := scenario.NewReader(doc)
	plan.read(r, r.Root(append(plan.fields(), reserved...)...), into)
	return r.Err()
}

func TestParamsRead(t *testing.T) {
	plan := testPlan(t)
	var p testParams
	if err := readParams(t, plan, goodFile, &p); err != nil {
		t.Fatal(err)
	}
	found := fmt.Sprintf("%v %q %q %q %v %v %v %v %v %v %v %v %v %v", p.Arrivals, p.Timeout, p.Policy, p.Title,
		p.Verbose,
		p.MeanCPU, p.Offset, p.Big, p.Weights, p.Corners, p.Delays, p.Limits, p.Stations, p.Grid)
	want := `5/s "exponential(3) + 1" "fifo" "" false 2.5 -3 7 [1 2] [0 4] [exponential(1) 2] {10 0.5} ` +
		`[{web uniform(1, 2) 3} {a b 2 1}] []`
	if found != want {
		t.Errorf("found\n%s\nwant\n%s", found, want)
	}
	names := []string{p.Arrivals.Name(), p.Timeout.Name(), p.Delays[1].Name(), p.Stations[0].Service.Name(),
		p.Stations[1].Service.Name()}
	if want := []string{"arrivals", "timeout", "delays[1]", "stations.web.service",
		"stations.a b.service"}; !slices.Equal(
		names, want) {
		t.Errorf("distributions are named %q, want %q", names, want)
	}
	var q testParams
	if err := readParams(t, plan, goodFile+"limits: {share: 1}\nweights: [3]\ntitle: x\npolicy: lifo\nverbose: true\n",
		&q); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintln(q.Limits, q.Weights, q.Title, q.Policy, q.Verbose) != "{10 1} [3] x lifo true\n" {
		t.Errorf("found %v %v %v %v %v", q.Limits, q.Weights, q.Title, q.Policy, q.Verbose)
	}
}

// TestParamsDefaultsAreApart: what a model does to its own list changes no other's.
func TestParamsDefaultsAreApart(t *testing.T) {
	plan := testPlan(t)
	var p, q testParams
	if readParams(t, plan, goodFile, &p) != nil || readParams(t, plan, goodFile, &q) != nil {
		t.Fatal("not read")
	}
	p.Weights[0] = 99
	if q.Weights[0] != 1 {
		t.Errorf("two structs share the list of a default")
	}
}

// TestParamsRefused has what is changed in the good file, and what is reported.
func TestParamsRefused(t *testing.T) {
	plan := testPlan(t)
	for _, c := range [][3]string{
		{"arrivals: 5", "arrivals: 0", "shop.yml:4:11: arrivals: found 0, want a number > 0"},
		{"arrivals: 5", "", "arrivals: found nothing"},
		{"mean_cpu: 2.5", "mean_cpu: 0", "mean_cpu: found 0, want a number > 0 and <= 8"},
		{"mean_cpu: 2.5", "mean_cpu: 9", "mean_cpu: found 9"},
		{"mean_cpu: 2.5", "meancpu: 2", "did you mean mean_cpu?"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\nbig: -1", "big: found -1, want a whole number >= 0"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\noffset: 128", "offset: found 128, want a whole number from -128 to 127"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\noffset: 1.5", "offset: found 1.5, want a whole number"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\nbig: 1e18", "big: found 1e18, want a whole number"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\npolicy: sjf", `policy: found the text "sjf", want one of fifo, lifo`},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\nweights: [1, -1]", "weights[1]: found -1, want a number >= 0"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\ncorners: [1]", "corners: found a list of 1, want one of 2"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\nlimits: {share: 2}", "limits.share: found 2, want a number from 0 to 1"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\nlimits: {cue: 2}", "limits.cue: found an unknown field"},
		{"mean_cpu: 2.5", "mean_cpu: 2.5\ntimeout: normal(3, 1)",
			"timeout: found normal(3, 1), which has no least number, " +
				"want no number below 0; write a mapping with min"},
		{"servers: 3", "servers: 70000", "stations.web.servers: found 70000, want a whole number from 1 to 65535"},
		{`"uniform(1, 2)"`, "exponential(1)",
			"stations.web.service: found exponential(1), which goes down to 0, want only " +
				"numbers above 0"},
		{"web:", "web: &a\n  x: 3\n  y:", "stations.web"},
		{"stations:", "stations: []\nlimits:", "stations: found a list, want a mapping"},
		{"\"a b\"", "\"\"", "found a name of 0 characters"},
	} {
		var p testParams
		err := readParams(t, plan, strings.Replace(goodFile, c[0], c[1], 1), &p)
		if err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: found\n%v\nwant\n%s", c[1], err, c[2])
		}
	}
}

func TestParamsHorizonOfSupport(t *testing.T) {
	plan, err := planParams(reflect.TypeFor[struct {
		D dist.Dist `min:"1" max:"5"`
	}]())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"uniform(1, 5)": "", "uniform(0.5, 2)": "goes down to 0.5",
		"uniform(2, 6)": "goes up to 6", "exponential(1) + 1": "no largest number",
		"{distribution: exponential, mean: 1, plus: 1, max: 5}": ""} {
		var p struct{ D dist.Dist }
		err := readParams(t, plan, "d: "+text, &p)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestParamsBadTypes has structs that are refused when the model is built, and with what.
func TestParamsBadTypes(t *testing.T) {
	type loop struct {
		Of []loop `default:"[]"`
	}
	type embedded struct{ testLimits }
	type keyed struct {
		Name string `yaml:"name,key"`
		X    int
	}
	for want, p := range map[string]any{
		"want a struct":                 3,
		"A: a map has no order":         struct{ A map[string]int }{},
		"A: a pointer: want int itself": struct{ A *int }{},
		"A: the type interface {}":      struct{ A any }{},
		"A: the type complex128":        struct{ A complex128 }{},
		"a: it can't be set":            struct{ a int }{},
		"an embedded struct":            embedded{},
		"contains itself":               loop{},
		"the name horizon belongs":      struct{ Horizon float64 }{},
		"the name debug belongs": struct {
			X int `yaml:"debug"`
		}{},
		"has the name a too": struct {
			A, B int `yaml:"a"`
		}{},
		`the name "a b"`: struct {
			A int `yaml:"a b"`
		}{},
		`the option "omitempty"`: struct {
			A int `yaml:"a,omitempty"`
		}{},
		"A: a key of type int": struct {
			A int `yaml:"a,key"`
		}{},
		"a key outside of a list": struct {
			A string `yaml:"a,key"`
		}{},
		"A: a key outside of a list":         struct{ A keyed }{},
		"an array whose elements have a key": struct{ A [2]keyed }{},
		"the tag mim: want one of": struct {
			A int `mim:"1"`
		}{},
		`did you mean min?`: struct {
			A int `mim:"1"`
		}{},
		"want name:\"value\"": reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](),
			Tag: `min:1`}}),
		"the tag min:\"x\": want a finite number": struct {
			A int `min:"x"`
		}{},
		"the tag varies:\"no\": want true": struct {
			A int `varies:"no"`
		}{},
		"the tag min:\"1.5\"": struct {
			A int `min:"1.5"`
		}{},
		"the tag max:\"NaN\"": struct {
			A float64 `max:"NaN"`
		}{},
		"bounds are for numbers": struct {
			A string `min:"1"`
		}{},
		"both the tags min and above": struct {
			A int `min:"1" above:"1"`
		}{},
		"its bounds leave no number": struct {
			A int `min:"3" max:"2"`
		}{},
		"leave no number, from 0 to -1": struct {
			A uint8 `max:"-1"`
		}{},
		"choices are for strings": struct {
			A int `choices:"1,2"`
		}{},
		"want different words": struct {
			A string `choices:"a,a"`
		}{},
		`the tag default:"0"`: struct {
			A int `min:"1" default:"0"`
		}{},
		`the tag default:"exponential(0)"`: struct {
			A dist.Dist `default:"exponential(0)"`
		}{},
		`the tag default:"sjf"`: struct {
			A string `choices:"a,b" default:"sjf"`
		}{},
		`the tag default:"["`: struct {
			A []int `default:"["`
		}{},
		`the tag default:"1\nb: 2"`: struct {
			A int `default:"1\nb: 2"`
		}{},
		"a default for a struct": struct {
			A testLimits `default:"{}"`
		}{},
	} {
		typ := reflect.TypeOf(p)
		if made, ok := p.(reflect.Type); ok {
			typ = made
		}
		if _, err := planParams(typ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: found\n%v\nwant\n%s", typ, err, want)
		}
	}
}

func TestParamNames(t *testing.T) {
	for name, want := range map[string]string{"A": "a", "MeanTime": "mean_time", "CPUCores": "cpu_cores",
		"MTBF": "mtbf",
		"Of2":  "of2", "MeanCPU": "mean_cpu"} {
		if found := snake(name); found != want {
			t.Errorf("%s is %s, want %s", name, found, want)
		}
	}
}

func TestParamFlags(t *testing.T) {
	plan, err := planParams(reflect.TypeFor[struct {
		Agents  int       `min:"1" default:"2" doc:"who answer"`
		Service dist.Dist `unit:"s" min:"0"`
		Order   string    `choices:"fifo,lifo" default:"fifo"`
		List    []int     `default:"[]"`
		Strict  bool      `default:"true" doc:"no second try"`
		Shop    struct {
			Tills int `default:"1"`
		}
	}]())
	if err != nil {
		t.Fatal(err)
	}
	const required = "none, FILE must have it"
	want := []scenario.Flag{{Name: "agents", Default: "2", Usage: "`N`, a whole number >= 1: who answer"},
		{Name: "service", Default: required, Usage: "`DISTRIBUTION`, in s, >= 0"},
		{Name: "order", Default: "fifo", Usage: "`TEXT`, fifo, lifo", Text: true},
		{Name: "list", Default: "[]", Usage: "`LIST`, a list: a whole number"},
		{Name: "strict", Default: "true", Usage: "no second try", Switch: true},
		{Name: "shop.tills", Default: "1", Usage: "`N`, a whole number"},
		{Name: "antithetic", Default: "false", Usage: "replications in pairs of opposite random numbers", Switch: true},
		{Name: "epoch_limit", Default: "10000000",
			Usage: "`NUMBER`, a whole number >= 1: most that one node does at one time"}}
	if found := plan.parameters(); !slices.Equal(found, want) {
		t.Errorf("found\n%+v, want\n%+v", found, want)
	}
}

func TestParamDocumentation(t *testing.T) {
	markdown := testPlan(t).markdown("shop")
	for _, row := range []string{
		"| `timeout` | s | exponential(3) + 1 | a distribution >= 0 | how long a customer waits |",
		"| `limits.share` |  | `0.5` | a number from 0 to 1 |  |",
		"| `stations` |  | required | a mapping of names | in this order |",
		"| `stations.NAME.servers` |  | `1` | a whole number from 1 to 65535 | how many are served at a time |",
		"| `policy` |  | `fifo` | fifo, lifo |  |", "| `corners` |  | [0, 4] | a list of 2: a whole number |  |",
		"| `horizon` | s |",
	} {
		if !strings.Contains(markdown, row) {
			t.Errorf("found\n%s\nwithout\n%s", markdown, row)
		}
	}
	if strings.Contains(markdown, "name.NAME") || strings.Contains(markdown, "`left`") {
		t.Errorf("more fields than there are:\n%s", markdown)
	}
	lines := strings.Split(strings.TrimSpace(testPlan(t).text("shop")), "\n")
	if len(lines) != strings.Count(strings.TrimSpace(markdown), "\n") || !strings.HasPrefix(lines[0], "field  ") {
		t.Errorf("%d lines of text for a table of\n%s", len(lines), markdown)
	}
}

func TestParamReferences(t *testing.T) {
	doc, err := scenario.Parse("shop.yml", []byte(strings.Replace(goodFile, `"uniform(1, 2)"`,
		"{distribution: empirical, file: a.csv}", 1)+"delays: [1, {distribution: empirical, file: b.csv}]\n"+
		"timeout: {distribution: empirical, file: c.csv}\nweights: 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range testPlan(t).references(doc) {
		names = append(names, r.Name)
	}
	if want := []string{"c.csv", "b.csv", "a.csv"}; !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
}

// TestKindReadsParams goes the way of a program: a file, the file that it refers to, the build function.
func TestKindReadsParams(t *testing.T) {
	type params struct {
		Times   dist.Dist
		Clients int `default:"3"`
	}
	var found params
	kind := Kind("shop", func(b *Builder, p params) {
		found = p
		b.Node("a", func(n *Node) {})
	})
	file := filepath.Join(t.TempDir(), "shop.yml")
	text := "model: shop\nhorizon: 5\ntimes: {distribution: empirical, file: times.csv}\n"
	for path, text := range map[string]string{file: text, filepath.Join(filepath.Dir(file), "times.csv"): "1\n4\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := scenario.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kind.Load(kind.Attach(doc, nil), scenario.Options{}); err != nil {
		t.Fatal(err)
	}
	if found.Times.Mean() != 2.5 || found.Clients != 3 {
		t.Errorf("the build function got %+v", found)
	}
}

// TestParamSchema holds the schema against the reader: what one allows the other does, over the faults of a field.
func TestParamSchema(t *testing.T) {
	plan := testPlan(t)
	var schema map[string]any
	if err := json.Unmarshal(plan.schema("shop"), &schema); err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"model": "shop", "horizon": 100.0, "arrivals": 5.0, "mean_cpu": 2.5,
		"stations": map[string]any{"web": map[string]any{"service": 2.0}}}
	for _, c := range []struct{ field, value string }{
		{"mean_cpu", "3"}, {"mean_cpu", "0"}, {"mean_cpu", "9"}, {"mean_cpu", `"3"`}, {"policy", `"lifo"`}, {"policy",
			`"x"`},
		{"policy", "3"}, {"title", `"x"`}, {"title", `""`}, {"verbose", "true"}, {"verbose", "1"}, {"offset", "127"},
		{"offset", "128"}, {"offset", "1.5"}, {"big", "-1"}, {"big", "3"}, {"weights", "[]"}, {"weights", "[-1]"},
		{"corners", "[1, 2]"}, {"corners", "[1]"}, {"corners", "[1, 2, 3]"}, {"delays", `["exponential(3) + 1"]`},
		{"delays", `["exponential"]`}, {"limits", "{}"}, {"limits", `{"share": 1}`}, {"limits", `{"share": 2}`},
		{"limits", `{"other": 2}`}, {"stations", "{}"}, {"stations", "[]"}, {"stations",
			`{"a": {"service": 1, "servers": 2}}`},
		{"stations", `{"a": {"service": 1, "servers": 0}}`}, {"stations", `{"a": {"servers": 1}}`}, {"grid",
			"[[1], []]"},
		{"grid", "[1]"}, {"other", "1"}, {"arrivals", `[{"from": 0, "rate": 2}]`}, {"arrivals", `{"rates": []}`},
		{"arrivals", `{"period": 5, "rates": [{"from": 0, "rate": 2}]}`}, {"arrivals", "0"},
		{"timeout", `{"distribution": "gamma", "mean": 3, "cv": 0.5, "plus": 1}`},
		{"timeout", `{"distribution": "gamma", "mean": 3}`}, {"timeout", `{"distribution": "gama", "mean": 3}`},
		{"timeout", `{"distribution": "discrete", "values": [1, 2]}`}, {"timeout",
			`{"distribution": "uniform", "min": 1, "max": 2}`},
		{"timeout", `{"distribution": "erlang", "mean": 3, "shape": 2.5}`}, {"timeout",
			`{"distribution": "exponential", "mean": 3, "cv": 1}`},
	} {
		file := map[string]any{}
		for k, v := range good {
			file[k] = v
		}
		var value any
		if err := json.Unmarshal([]byte(c.value), &value); err != nil {
			t.Fatal(err)
		}
		file[c.field] = value
		text, _ := json.Marshal(file)
		var p testParams
		err := readParams(t, plan, string(text), &p)
		if allowed := allows(schema, schema, file); allowed != (err == nil) {
			t.Errorf("%s: %s: the schema's answer is %v, the reader's %v", c.field, c.value, allowed, err)
		}
	}
}

// allows is what TestParamSchema needs of JSON Schema.
func allows(root, s map[string]any, v any) bool {
	for key, want := range s {
		ok := true
		switch w, _ := want.(float64); key {
		case "$ref":
			ok = allows(root, root["$defs"].(map[string]any)[strings.TrimPrefix(want.(string),
				"#/$defs/")].(map[string]any), v)
		case "anyOf":
			ok = slices.ContainsFunc(want.([]any), func(s any) bool { return allows(root, s.(map[string]any), v) })
		case "type":
			ok = isType(want.(string), v)
		case "const":
			ok = v == want
		case "enum":
			ok = slices.Contains(want.([]any), v)
		case "required":
			for _, name := range want.([]any) {
				o, _ := v.(map[string]any)
				ok = ok && o[name.(string)] != nil
			}
		case "properties", "additionalProperties":
			o, _ := v.(map[string]any)
			properties, _ := s["properties"].(map[string]any)
			for name, x := range o {
				of, known := properties[name].(map[string]any)
				other, schema := s["additionalProperties"].(map[string]any)
				switch {
				case known:
					ok = ok && allows(root, of, x)
				case schema:
					ok = ok && allows(root, other, x)
				default:
					ok = false
				}
			}
		default:
			ok = allowsPlain(root, key, want, w, v)
		}
		if !ok {
			return false
		}
	}
	return true
}

func allowsPlain(root map[string]any, key string, want any, w float64, v any) bool {
	x, isNumber := v.(float64)
	list, isList := v.([]any)
	text, isText := v.(string)
	switch key {
	case "minimum":
		return !isNumber || x >= w
	case "maximum":
		return !isNumber || x <= w
	case "exclusiveMinimum":
		return !isNumber || x > w
	case "minLength":
		return !isText || float64(len(text)) >= w
	case "pattern":
		return !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "minItems":
		return !isList || float64(len(list)) >= w
	case "maxItems":
		return !isList || float64(len(list)) <= w
	case "items":
		return !slices.ContainsFunc(list, func(x any) bool { return !allows(root, want.(map[string]any), x) })
	case "$schema", "$defs", "title", "description", "default":
		return true
	}
	panic("TestParamSchema knows no " + key)
}

func isType(want string, v any) bool {
	switch v := v.(type) {
	case float64:
		return want == "number" || want == "integer" && v == math.Trunc(v)
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case []any:
		return want == "array"
	}
	return want == "object"
}

// FuzzParams: whatever a file holds, it is refused or gives parameters within their bounds.
func FuzzParams(f *testing.F) {
	f.Add(goodFile)
	f.Add(goodFile + "limits: {share: 1}\nweights: [3]\ntitle: x\npolicy: lifo\ncorners: [1, 2]\ngrid: [[1]]\nbig: 3\n")
	f.Add(goodFile + "timeout: {distribution: uniform, min: 1, max: 3}\ndelays: [exponential(2)]\noffset: 5\n")
	plan := testPlan(f)
	f.Fuzz(func(t *testing.T, text string) {
		var p testParams
		if readParams(t, plan, text, &p) != nil {
			return
		}
		if !p.Arrivals.IsSet() || !(p.Timeout.Min() >= 0) || p.Policy != "fifo" && p.Policy != "lifo" ||
			!(p.MeanCPU > 0 &&
				p.MeanCPU <= 8) || slices.ContainsFunc(p.Weights, func(x float64) bool { return !(x >= 0) }) ||
			p.Limits.Queue < 0 || !(p.Limits.Share >= 0 && p.Limits.Share <= 1) {
			t.Fatalf("%+v", p)
		}
		for _, s := range p.Stations {
			if s.Name == "" || !(s.Service.Min() > 0) || s.Servers < 1 {
				t.Fatalf("%+v", s)
			}
		}
	})
}
