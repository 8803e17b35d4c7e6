package sweep

import (
	"errors"
	"strings"
	"testing"
)

const file = `# Two servers
settings:
  rate: 5       # a second
  name: "a \"b\", c"
  kurz: 'it''s'
servers:
  - { id: web-1, cores: 2, größe: 3, note: x }
  - id: web-2
    cores: &n 4
    more: *n
    text: |
      block
  - 17
empty:
`

func TestApply(t *testing.T) {
	for _, c := range []struct{ sweeps, from, to string }{
		{"settings.rate=7", "rate: 5 ", "rate: 7 "},
		{"settings.rate=.inf", "rate: 5 ", "rate: .inf "},
		{`settings.name=x`, `name: "a \"b\", c"`, "name: x"},
		{`settings.kurz="p, q"`, `'it''s'`, `"p, q"`},
		{"servers.0.cores=16", "cores: 2", "cores: 16"},
		{"servers[0].cores=16", "cores: 2", "cores: 16"},
		{"servers.web-1.cores=16", "cores: 2", "cores: 16"},
		{"servers.web-1.größe=16", "größe: 3", "größe: 16"},
		{"servers.web-1.note=long", "note: x", "note: long"},
		{"servers.2=18", "- 17", "- 18"},
		{"servers.web-1.id=web-9", "id: web-1", "id: web-9"},
		{"servers.web-1.note=lang servers.web-1.größe=1 settings.rate=0.25", "rate: 5 |größe: 3|note: x", "rate: 0.25 |größe: 1|note: lang"},
	} {
		want := file
		to := strings.Split(c.to, "|")
		for i, from := range strings.Split(c.from, "|") {
			want = strings.Replace(want, from, to[i], 1)
		}
		got, err := apply(t, strings.Split(c.sweeps, " s"))
		if strings.Contains(c.sweeps, "web-9") {
			// The id that leads to it is what changes: it can't be found again.
			if !errors.Is(err, ErrSweep) {
				t.Errorf("%s: %v, want ErrSweep", c.sweeps, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.sweeps, err, got, want)
		}
	}
}

// apply applies the first point of some axes; the leading s of all but the first was
// eaten by the split.
func apply(t *testing.T, sweeps []string) (string, error) {
	t.Helper()
	var axes []Axis
	for i, s := range sweeps {
		if i > 0 {
			s = "s" + s
		}
		a, err := ParseAxis(s)
		if err != nil {
			t.Fatal(err)
		}
		axes = append(axes, a)
	}
	points, err := Grid(axes)
	if err != nil {
		return "", err
	}
	got, err := Apply("f.yml", []byte(file), points[0])
	return string(got), err
}

func TestApplyRefuses(t *testing.T) {
	for sweep, want := range map[string]string{
		"settings.rat=7":          "settings.rat: f.yml:3: found no rat in settings, want a field that stands there (rate, name, kurz); did you mean rate?",
		"setings.rate=7":          "setings.rate: f.yml:2: found no setings in the file's top level, want a field that stands there (settings, servers, empty); did you mean settings?",
		"servers.3=1":             "servers.3: f.yml:7: found no 3 in servers, want an item that stands there (web-1, web-2, 2)",
		"servers.web-3.cores=1":   "servers.web-3.cores: f.yml:7: found no web-3 in servers, want an item that stands there (web-1, web-2, 2); did you mean web-1?",
		"settings.rate.mean=1":    "settings.rate.mean: f.yml:3: settings.rate is one value and has no mean",
		"settings=1":              "settings: f.yml:3: found a mapping, want one value: go on with one of rate, name, kurz",
		"servers=1":               "servers: f.yml:7: found a list, want one value: go on with one of web-1, web-2, 2",
		"servers.web-2.cores=1":   "servers.web-2.cores: f.yml:9: found a value with a tag or an anchor, want a value on one line, without tag and anchor",
		"servers.web-2.more=1":    "servers.web-2.more: f.yml:10: found the alias *n, want a value that stands there itself",
		"servers.web-2.text=1":    "servers.web-2.text: f.yml:11: found a text block, want a value on one line, without tag and anchor",
		"empty=1":                 "empty: f.yml:14: found nothing, or a value over several lines, want a value on one line, without tag and anchor",
		"settings.rate=a: b":      "settings.rate: found a: b, want one value: a number, a text, true or false",
		"settings.rate=[1":        "settings.rate: found [1, want one value: a number, a text, true or false",
		"servers.0.cores=a}":      "servers.0.cores: the value a} doesn't fit where it would stand: put it in quotes",
		"settings.rate=5 # fast":  "settings.rate: found no rate",
		"servers.0.cores=x # end": "servers.0.cores: the value x # end doesn't fit where it would stand: put it in quotes",
	} {
		got, err := apply(t, []string{sweep})
		if strings.Contains(sweep, "# fast") {
			// A comment behind the value is harmless where the line ends anyway.
			if err != nil || !strings.Contains(got, "rate: 5 # fast") {
				t.Errorf("%s: %v\n%s", sweep, err, got)
			}
			continue
		}
		if !errors.Is(err, ErrSweep) || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", sweep, err, want)
		}
	}
}

func TestGrid(t *testing.T) {
	a, err := ParseAxis("a.b = 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseAxis(`c="x,y",z`)
	if err != nil {
		t.Fatal(err)
	}
	points, err := Grid([]Axis{a, b})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points {
		got = append(got, p.String())
	}
	if want := `a.b=1 c="x,y"|a.b=1 c=z|a.b=2 c="x,y"|a.b=2 c=z`; strings.Join(got, "|") != want {
		t.Errorf("points %q, want %q", got, want)
	}
	if points, err := Grid(nil); err != nil || len(points) != 1 {
		t.Errorf("no axes: %v, %v; want one point without settings", points, err)
	}
	large := Axis{Key: "x", Values: make([]string, 101), path: []string{"x"}}
	other := Axis{Key: "y", Values: make([]string, 100), path: []string{"y"}}
	if _, err := Grid([]Axis{large, other}); !errors.Is(err, ErrSweep) {
		t.Errorf("10100 points: %v", err)
	}
	if _, err := Grid([]Axis{{Key: "a.0", path: []string{"a", "0"}, Values: []string{"1"}}, {Key: "a[0]", path: []string{"a", "0"}, Values: []string{"2"}}}); !errors.Is(err, ErrSweep) {
		t.Errorf("one field twice: %v", err)
	}
}

func TestParseAxisRefuses(t *testing.T) {
	for _, text := range []string{"", "a", "=1", "a=", "a=1,,2", "a=1,1", "a..b=1", ".a=1", "a=\"x"} {
		if a, err := ParseAxis(text); !errors.Is(err, ErrSweep) {
			t.Errorf("%q: %v, %v; want ErrSweep", text, a, err)
		}
	}
}
