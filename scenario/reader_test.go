// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// read gives the problems, one a line, that f makes out of text.
func read(t *testing.T, text string, f func(root scenario.Section)) string {
	t.Helper()
	r := scenario.NewReader(parse(t, text))
	f(r.Root("a", "b", "c"))
	if r.Err() == nil {
		return ""
	}
	return r.Err().Error()
}

// TestNumbers: what is a number, a whole number, and neither.
func TestNumbers(t *testing.T) {
	whole := scenario.Between(-10, 100)
	for text, want := range map[string]float64{
		"3": 3, "-3": -3, "+3": 3, "0x1f": 31, "0o17": 15, "1_0": 10, "1e1": 10, "4.0": 4, "!!int 7": 7, "!!float 7": 7,
		"0": 0, "-0": 0,
	} {
		var f float64
		var i int
		if got := read(t, "a: "+text, func(root scenario.Section) {
			f, i = root.Field("a").Float(whole), root.Field("a").Int(whole)
		}); got != "" || f != want || i != int(want) {
			t.Errorf("%s: got %v, %v, %s, want %v", text, f, i, got, want)
		}
	}
	for text, want := range map[string]string{
		"":       "t.yml:1:1: a: found nothing, want a whole number from -10 to 100",
		"null":   "t.yml:1:4: a: found null, want a whole number from -10 to 100",
		"~":      "t.yml:1:4: a: found null, want",
		"true":   "t.yml:1:4: a: found the boolean true, want",
		"yes":    `t.yml:1:4: a: found the text "yes", want`,
		"'3'":    `t.yml:1:4: a: found the text "3", want a whole number from -10 to 100; remove the quotes`,
		"3s":     `found the text "3s", want`,
		"nan":    `found the text "nan", want`,
		".nan":   "found .nan, which is not finite, want",
		".inf":   "found .inf, which is not finite, want",
		"-.Inf":  "found -.Inf, which is not finite, want",
		"1e400":  "found 1e400, which is beyond the range of a float64, want",
		"-1e400": "found -1e400, which is beyond the range of a float64, want",
		"017": "found 017, which is octal to some readers of YAML and decimal to others, " +
			"want a whole number from -10 to 100; write it without the leading 0",
		"-07":                            "found -07, which is octal",
		"1.5":                            "found 1.5, want a whole number",
		"101":                            "found 101, want a whole number from -10 to 100",
		"2026-01-02":                     "found the date 2026-01-02, want",
		"[3]":                            "found a list, want",
		"{ x: 3 }":                       "found a mapping, want",
		"!!binary aa":                    "found a value with the tag !!binary, want",
		"!mine 3":                        "found a value with the tag !mine, want",
		"!!int x":                        "found x, want",
		"123456789012345678901234567890": "found 123456789012345678901234567890, want",
	} {
		got := read(t, "a: "+text, func(root scenario.Section) { root.Field("a").Int(whole) })
		if !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%q:\ngot  %s\nwant …%s…", text, got, want)
		}
	}
	if got := read(t, "a: 9007199254740993",
		func(root scenario.Section) { root.Field("a").Int(scenario.AnyNumber()) }); got == "" {
		t.Error("a whole number that no float64 tells from its neighbour was accepted")
	}
}

// TestRange holds Holds and String of every form against each other.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		r       scenario.Range
		text    string
		in, out []float64
	}{
		{scenario.AnyNumber(), "a number", []float64{0, math.MaxFloat64, -math.MaxFloat64}, nil},
		{scenario.AtLeast(2), "a number >= 2", []float64{2, 3, math.MaxFloat64}, []float64{1.9999, -2}},
		{scenario.MoreThan(0), "a number > 0", []float64{math.SmallestNonzeroFloat64}, []float64{0, -1}},
		{scenario.Between(0, 0.5), "a number from 0 to 0.5", []float64{0, 0.5}, []float64{-0.1, 0.6}},
		{scenario.MoreThan(0).AtMost(1), "a number > 0 and <= 1", []float64{1}, []float64{0, 1.1}},
		{scenario.AnyNumber().AtMost(-1.5), "a number <= -1.5", []float64{-2, -1.5}, []float64{-1}},
		{scenario.AtLeast(1).Or("all"), "a number >= 1 or all", []float64{1}, []float64{0}},
		{scenario.Range{}, "a number from 0 to 0", []float64{0}, []float64{1, -1}},
	} {
		if c.r.String() != c.text {
			t.Errorf("got %q, want %q", c.r, c.text)
		}
		for _, x := range c.in {
			if !c.r.Holds(x) {
				t.Errorf("%v is not %s", x, c.r)
			}
		}
		for _, x := range append(c.out, math.NaN(), math.Inf(1), math.Inf(-1)) {
			if c.r.Holds(x) {
				t.Errorf("%v is %s", x, c.r)
			}
		}
	}
}

// TestTextWordBool: the other scalars, and their defaults.
func TestTextWordBool(t *testing.T) {
	type result struct {
		text, word string
		yes        bool
	}
	for text, want := range map[string]struct {
		result
		err string
	}{
		"a: x\nb: red\nc: true":          {result{"x", "red", true}, ""},
		"a: '1'\nb: \"green\"\nc: False": {result{"1", "green", false}, ""},
		"{}":                             {result{"def", "green", true}, ""},
		"a: !!str 1":                     {result{"1", "green", true}, ""},
		"a: 1": {result{"", "green", true},
			`t.yml:1:4: a: found 1, want text; write "1" in quotes if it is meant as text`},
		"a: ''": {result{"", "green", true},
			"t.yml:1:4: a: found empty text, want text of 1 character or more"},
		"a:":     {result{"", "green", true}, "t.yml:1:1: a: found nothing, want text"},
		"a: [x]": {result{"", "green", true}, "t.yml:1:4: a: found a list, want text"},
		"b: Green": {result{"def", "", true},
			`t.yml:1:4: b: found the text "Green", want one of red, green; did you mean green?`},
		"b: mauve": {result{"def", "", true},
			`t.yml:1:4: b: found the text "mauve", want one of red, green`},
		"c: 1": {result{"def", "green", false}, "t.yml:1:4: c: found 1, want true or false"},
		"c: 'true'": {result{"def", "green", false},
			`t.yml:1:4: c: found the text "true", want true or false`},
	} {
		var got result
		err := read(t, text, func(root scenario.Section) {
			got = result{root.Field("a").TextOr("def"), root.Field("b").WordOr("green", "red", "green"),
				root.Field("c").BoolOr(true)}
		})
		if got != want.result || err != want.err {
			t.Errorf("%q: got %+v, %s\nwant %+v, %s", text, got, err, want.result, want.err)
		}
	}
}

// TestSection: unknown and repeated fields, odd names, and what is missing.
func TestSection(t *testing.T) {
	for text, want := range map[string]string{
		"a: { x: 1, y: 2, X: 3 }": "t.yml:1:18: a.X: found an unknown field, want only the fields x, " +
			"y; did you mean x?",
		"a: { x: 1, x: 2, y: 1 }": "t.yml:1:12: a.x: found the field a second time (the first is on " +
			"line 1), want every field once; remove one of them",
		"a: { 1: 1, x: 1, y: 1 }":   "t.yml:1:6: a: found 1 as the name of a field, want text",
		"a: { [x]: 1, x: 1, y: 1 }": "t.yml:1:6: a: found a list as the name of a field, want text",
		"a: { x: 1 }":               "t.yml:1:4: a.y: found nothing, want a number; add the field y",
		"b: 1": "t.yml:1:1: a: found nothing, want a mapping with x, y; add the " +
			"field a",
		"a: 7": "t.yml:1:4: a: found 7, want a mapping of fields",
		"a: !!set { x: 1, y: 1 }": "t.yml:1:4: a: found a value with the tag !!set, want a mapping of " +
			"fields; remove the tag",
		"a: { x: 1, y: 1, <<: 3 }": "t.yml:1:22: a.<<: found 3, want an alias of a mapping, or a list " +
			"of such",
		"a: { <<: {x: 1}, <<: {y: 1} }": "t.yml:1:18: a: found a second merge key << (the first is on line " +
			"1), want one; give it a list: <<: [*a, *b]\nt.yml:1:4: a.y: found nothing",
		"b: &b {z: 1}\na: {x: 1, y: 1, <<: *b}": "t.yml:1:8: a.z: found an unknown field, want only the fields x, y",
	} {
		got := read(t, text, func(root scenario.Section) {
			s := root.Field("a").Section("x", "y")
			s.Field("x").Float(scenario.AnyNumber())
			s.Field("y").Float(scenario.AnyNumber())
		})
		for _, line := range strings.Split(want, "\n") {
			if !strings.Contains(got, line) {
				t.Errorf("%q:\ngot  %s\nwant %s", text, got, line)
			}
		}
		if strings.Count(got, "\n") != strings.Count(want, "\n") {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("reading a field that the section does not have did not panic")
		}
	}()
	read(t, "a: 1", func(root scenario.Section) { root.Field("d") })
}

// TestMerge: own fields win, then what is listed first; merges may be nested and
// lie anywhere in the mapping.
func TestMerge(t *testing.T) {
	const text = `
a: &a { x: 1, y: 1, z: 1 }
b: &b { <<: *a, y: 2 }
c:
  z: 3
  <<: [{ x: 4 }, *b]
`
	got := map[string]float64{}
	err := read(t, text, func(root scenario.Section) {
		for _, name := range []string{"a", "b", "c"} {
			s := root.Field(name).Section("x", "y", "z")
			for _, f := range []string{"x", "y", "z"} {
				got[name+f] = s.Field(f).Float(scenario.AnyNumber())
			}
		}
	})
	want := map[string]float64{"ax": 1, "ay": 1, "az": 1, "bx": 1, "by": 2, "bz": 1, "cx": 4, "cy": 2, "cz": 3}
	if err != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %s, want %v", got, err, want)
	}
}

// TestListEntries: lists, and mappings whose names the file chooses.
func TestListEntries(t *testing.T) {
	var got []string
	err := read(t, "a: [1, [2], 3]\nb: { q: 1, p: 2 }\nc: []", func(root scenario.Section) {
		for _, v := range root.Field("a").List() {
			got = append(got, fmt.Sprintf("%s=%v", v.Path(), v.Int(scenario.AnyNumber())))
		}
		for _, e := range root.Field("b").Entries() {
			got = append(got, fmt.Sprintf("%s %s=%v", e.Name, e.Value.Path(), e.Value.Int(scenario.AnyNumber())))
		}
		if n := len(root.Field("c").List()); n != 0 {
			t.Errorf("an empty list has %d items", n)
		}
	})
	want := []string{"a[0]=1", "a[1]=0", "a[2]=3", "q b.q=1", "p b.p=2"}
	if !reflect.DeepEqual(got, want) || err != "t.yml:1:8: a[1]: found a list, want a whole number" {
		t.Errorf("got %v, %s", got, err)
	}
	three := func(root scenario.Section) {
		root.Field("a").List()
		root.Field("b").List()
		root.Field("c").Entries()
	}
	if err := read(t, "a: {}", three); strings.Count(err, "\n") != 2 {
		t.Errorf("got %s, want three problems", err)
	}
}

// TestSilence: below what was refused nothing more is said, yet Refusals counts.
func TestSilence(t *testing.T) {
	r := scenario.NewReader(parse(t, "a: 5"))
	a := r.Root("a").Field("a").Section("x", "l")
	before := r.Refusals()
	deep := a.Field("x").Section("z").Field("z")
	deep.Float(scenario.AnyNumber())
	deep.FloatOr(1, scenario.AnyNumber())
	deep.Text()
	deep.Bool()
	deep.Word("q")
	deep.List()
	deep.Entries()
	deep.Refuse("this", "that", "")
	deep.Note("nothing")
	if deep.Present() || deep.IsMapping() || deep.IsList() {
		t.Error("something stands below a number")
	}
	if r.Refusals() < before+8 {
		t.Errorf("%d refusals below a refused value, want 8 at least", r.Refusals()-before)
	}
	if got := r.Err().Error(); got != "t.yml:1:4: a: found 5, want a mapping of fields" || len(r.Notes()) != 0 {
		t.Errorf("got %s and %v", got, r.Notes())
	}
}

// TestOrNull: where null is allowed it is the same as nothing.
func TestOrNull(t *testing.T) {
	for text, want := range map[string]float64{"b: 1": 7, "a:": 7, "a: null": 7, "a: ~": 7, "b: &n null\na: *n": 7,
		"a: 3": 3} {
		var x float64
		if err := read(t, text, func(root scenario.Section) {
			x = root.Field("a").OrNull().FloatOr(7,
				scenario.AnyNumber())
		}); err != "" || x != want {
			t.Errorf("%q: got %v, %s, want %v", text, x, err, want)
		}
	}
}

// TestProblems: the order of the file, every place once however many aliases lead
// to it, and no more than the limit.
func TestProblems(t *testing.T) {
	text := "b: [&x { v: bad }, *x, *x]\na: worse\n"
	got := read(t, text, func(root scenario.Section) {
		root.Field("a").Int(scenario.AnyNumber())
		for _, v := range root.Field("b").List() {
			v.Section("v").Field("v").Int(scenario.AnyNumber())
		}
	})
	want := "t.yml:1:13: b[0].v: found the text \"bad\", want a whole number\nt.yml:2:4: a: found the text " +
		"\"worse\", want a whole number"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	r := scenario.NewReader(parse(t, "a: ["+strings.Repeat("x,", scenario.ProblemsMax+5)+"]"))
	for _, v := range r.Root("a").Field("a").List() {
		v.Float(scenario.AnyNumber())
	}
	var problems scenario.Problems
	if !errors.As(r.Err(), &problems) || len(problems) != scenario.ProblemsMax+1 {
		t.Fatalf("%d problems, want %d", len(problems), scenario.ProblemsMax+1)
	}
	if last := problems[scenario.ProblemsMax].String(); last != "t.yml: found 5 more problems, which are not listed" {
		t.Errorf("the last one says %s", last)
	}
}

// TestLongText: a message repeats only the beginning of a long text.
func TestLongText(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	got := read(t, "a: "+long, func(root scenario.Section) { root.Field("a").Int(scenario.AnyNumber()) })
	if want := `found the text "` + strings.Repeat("ä", 60) + `…", want`; !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	got = read(t, long+": 1", func(root scenario.Section) {})
	if want := "t.yml:1:1: " + strings.Repeat("ä", 60) + "…: found an unknown field"; !strings.HasPrefix(got, want) ||
		len(got) > 400 {
		t.Errorf("%d bytes for an unknown field: %s", len(got), got)
	}
	got = read(t, `{"two\nlines": 1}`, func(root scenario.Section) {})
	if want := `t.yml:1:2: "two\nlines": found an unknown field`; !strings.HasPrefix(got, want) ||
		strings.Contains(got, "\n") {
		t.Errorf("a name of two lines: %s", got)
	}
}

func TestSuggest(t *testing.T) {
	words := []string{"round_robin", "least_connection", "a"}
	for found, want := range map[string]string{
		"roundrobin": "did you mean round_robin?", "Round-Robin": "did you mean round_robin?",
		"least_connections": "did you mean least_connection?",
		"":                  "", "b": "", "random": "", strings.Repeat("a", 1<<20): "",
	} {
		if got := scenario.Suggest(found, words); got != want {
			t.Errorf("%.20q: got %q, want %q", found, got, want)
		}
	}
}

// FuzzParse: whatever the bytes, Parse ends with a document or with Problems, and a
// document can be read in every way without a panic.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"a: 1", "- 1\n- [x, 'y']\n", "a: &a {b: 1}\nc: {<<: *a, d: [*a]}\n", "a: &a [*a]", "{<<: [{a: 1}, {b: 2}]}",
		"? [x]\n: 1\n", "a: !!set {x}\nb: !foo bar\n",
		"a: |\n  text\n # c\nb: >-\n  x\n", "%YAML 1.2\n---\na: 1\n...\n", "a: .nan\nb: 0x1F\nc: 2026-01-01\nd: ~\n",
		laughs(4), nested(30), "a: 'x\n", "\xff", "<<: 1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := scenario.Parse("f.yml", text)
		if err != nil {
			var problems scenario.Problems
			if !errors.As(err, &problems) || len(problems) != 1 {
				t.Fatalf("the error is %v, want one problem", err)
			}
			return
		}
		r := scenario.NewReader(doc)
		root := r.Root("a", "b")
		budget := 10_000
		readAll(root.At(), &budget)
		readAll(root.Field("a"), &budget)
		_ = r.Err()
		_ = r.Notes()
	})
}

// TestIsText: text is what no other reading takes.
func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{"pond": true, `"3"`: true, "''": true, "yes": true, "3": false,
		"1e999": false,
		"true":  false, "[a]": false, "{a: b}": false, "null": false, "": false, "2001-01-01": false} {
		doc, err := scenario.Parse("a.yml", []byte("a: "+text))
		if err != nil {
			t.Fatal(err)
		}
		r := scenario.NewReader(doc)
		v := r.Root("a", "b")
		if found := v.Field("a").IsText(); found != want || v.Field("b").IsText() {
			t.Errorf("%s: IsText is %v, want %v", text, found, want)
		}
		if v.Field("a").Reader() != r {
			t.Error("a value has another reader than its own")
		}
	}
}

// readAll reads v in every way, and what is below it, up to a number of values.
func readAll(v scenario.Value, budget *int) {
	if *budget--; *budget < 0 {
		return
	}
	v.Float(scenario.AnyNumber())
	v.IntOr(1, scenario.Between(0, 5))
	v.OrNull().BoolOr(true)
	v.Word("x", "y")
	v.Note(fmt.Sprint(v.Text(), v.IsText()))
	if v.IsList() {
		for _, item := range v.List() {
			readAll(item, budget)
		}
	}
	if v.IsMapping() {
		for _, e := range v.Entries() {
			readAll(e.Value, budget)
		}
		v.Section("a", "b").Field("a").Section("c").Field("c").Text()
	}
}
