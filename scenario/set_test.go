// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// leaves is the simple reading of a document: every value by its path, aliases and merge
// keys written out.
func leaves(d *Document) map[string]string {
	all := make(map[string]string)
	spread(NewReader(d).Whole(), all)
	return all
}

func spread(v Value, all map[string]string) {
	switch {
	case v.IsList():
		for _, item := range v.List() {
			spread(item, all)
		}
	case v.IsMapping():
		for _, e := range v.Entries() {
			spread(e.Value, all)
		}
	case v.Present():
		n := follow(v.node)
		all[v.Path()] = n.ShortTag() + " " + n.Value
	}
}

// changes says in which values two documents differ.
func changes(before, after *Document) string {
	a, b := leaves(before), leaves(after)
	var lines []string
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range sorted(keys) {
		if a[key] != b[key] {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", key, strings.TrimPrefix(a[key], "!!"),
				strings.TrimPrefix(b[key], "!!")))
		}
	}
	return strings.Join(lines, "\n")
}

func sorted(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	for i := range keys {
		for k := i; k > 0 && keys[k] < keys[k-1]; k-- {
			keys[k], keys[k-1] = keys[k-1], keys[k]
		}
	}
	return keys
}

func document(t testing.TB, text string) *Document {
	t.Helper()
	d, err := Parse("f.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func with(t testing.TB, d *Document, texts ...string) (*Document, error) {
	t.Helper()
	var all []Setting
	for _, text := range texts {
		s, err := ParseSetting(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return d.With(all)
}

// shared is a file in which most values stand for several.
const shared = `settings: { rate: 5, name: "a.b" }
base: &base { cores: 2, disk: &disk { size: 10, speed: 1 } }
servers:
  - &web
    id: web-1
    resources: &res { cores: 4, ram: 8 }
    disk: *disk
  - { <<: *web, id: web-2 }
  - <<: [*base, *web]
    name: third
  - *web
  - 17
events:
  - { event_id: ev.1, start: { at: 3 } }
  - { event_id: "0", start: 7 }
  - { endpoint_name: /hello, p: 1 }
copies: [*disk, *disk]
nothing:
`

// TestWithChangesOneField: exactly the field that is named, whatever shares it.
func TestWithChangesOneField(t *testing.T) {
	d := document(t, shared)
	before := leaves(d)
	for setting, want := range map[string]string{
		"settings.rate=7":                  "settings.rate: int 5 -> int 7",
		"settings.rate=.inf":               "settings.rate: int 5 -> float .inf",
		`settings.name="p, q"`:             "settings.name: str a.b -> str p, q",
		"settings.burst=3":                 "settings.burst:  -> int 3",
		"settings=9":                       "settings: -> int 9",
		"limits.deep.er=1":                 "limits.deep.er:  -> int 1",
		"nothing.below=1":                  "nothing.below:  -> int 1\nnothing: null  -> ",
		"nothing=[1, {a: 2}]":              "nothing[0]:  -> int 1\nnothing[1].a:  -> int 2\nnothing: null  -> ",
		"base.cores=3":                     "base.cores: int 2 -> int 3",
		"base.disk.size=11":                "base.disk.size: int 10 -> int 11",
		"servers[0].resources.cores=16":    "servers[0].resources.cores: int 4 -> int 16",
		"servers.0.disk.size=20":           "servers[0].disk.size: int 10 -> int 20",
		"servers.web-2.resources.cores=16": "servers[1].resources.cores: int 4 -> int 16",
		"servers.web-2.disk.speed=2":       "servers[1].disk.speed: int 1 -> int 2",
		"servers.third.resources.ram=16":   "servers[2].resources.ram: int 8 -> int 16",
		"servers[2].resources.ram=16":      "servers[2].resources.ram: int 8 -> int 16",
		"servers[2].cores=16":              "servers[2].cores: int 2 -> int 16",
		"servers[3].id=web-4":              "servers[3].id: str web-1 -> str web-4",
		"servers[3].resources.cores=1":     "servers[3].resources.cores: int 4 -> int 1",
		"servers[4]=18":                    "servers[4]: int 17 -> int 18",
		"servers.4=18":                     "servers[4]: int 17 -> int 18",
		`events."ev.1".start.at=4`:         "events[0].start.at: int 3 -> int 4",
		"events.0.start=8":                 "events[1].start: int 7 -> int 8",
		"events[0].start.at=8":             "events[0].start.at: int 3 -> int 8",
		"events./hello.p=0.5":              "events[2].p: int 1 -> float 0.5",
		"copies[1].size=12":                "copies[1].size: int 10 -> int 12",
		"copies.0.speed=x":                 "copies[0].speed: int 1 -> str x",
	} {
		after, err := with(t, d, setting)
		switch {
		case err != nil:
			t.Errorf("%s: %v", setting, err)
			continue
		}
		if setting == "settings=9" {
			want = "settings.name: str a.b -> \nsettings.rate: int 5 -> \nsettings:  -> int 9"
		}
		if got := changes(d, after); !sameLines(got, want) {
			t.Errorf("%s changes\n%s\nwant\n%s", setting, got, want)
		}
		if !maps.Equal(before, leaves(d)) {
			t.Fatalf("%s changes the document it was put into", setting)
		}
		again, err := with(t, document(t, shared), setting)
		if err != nil || changes(after, again) != "" || string(after.Text()) != shared {
			t.Errorf("%s: another process would read something else: %v", setting, err)
		}
	}
}

func sameLines(a, b string) bool {
	x, y := map[string]bool{}, map[string]bool{}
	for _, l := range strings.Split(a, "\n") {
		x[strings.TrimSpace(l)] = true
	}
	for _, l := range strings.Split(b, "\n") {
		y[strings.TrimSpace(l)] = true
	}
	return maps.Equal(x, y)
}

// TestWithOnEveryLeaf puts a value wherever the shop has one, which shares most of its
// servers: one value differs each time.
func TestWithOnEveryLeaf(t *testing.T) {
	for _, text := range []string{shared, read(t, "../examples/shop.yml")} {
		d := document(t, text)
		random := rand.New(rand.NewPCG(1, 2))
		for path, old := range leaves(d) {
			if random.IntN(4) > 0 && len(text) > len(shared) {
				continue
			}
			after, err := d.With([]Setting{{path, "12345"}})
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if got, want := changes(d, after),
				fmt.Sprintf("%s: %s -> int 12345", path, strings.TrimPrefix(old, "!!")); got != want {
				t.Errorf("%s changes\n%s\nwant\n%s", path, got, want)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWithSeveral: settings beside one another, and positions and the name in messages.
func TestWithSeveral(t *testing.T) {
	d := document(t, shared)
	after, err := with(t, d, "settings.rate=7", "settings.burst=1", "servers.1.resources.cores=5",
		"servers.1.resources.ram=6", "more.a=1", "more.b=2")
	if err != nil {
		t.Fatal(err)
	}
	want := "more.a: -> int 1\nmore.b: -> int 2\nservers[1].resources.cores: int 4 -> int " +
		"5\nservers[1].resources.ram: int 8 -> int 6\nsettings.burst: -> int 1\nsettings.rate: int 5 -> int 7"
	if got := changes(d, after); !sameLines(strings.ReplaceAll(got, ":  ->", ": ->"), want) {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
	after, err = with(t, d, "settings.rate=-7")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(after)
	r.Root("settings", "base", "servers", "events", "copies", "nothing").Field("settings").Section("rate",
		"name").Field("rate").Int(AtLeast(0))
	if got, want := fmt.Sprint(r.Err()),
		"f.yml (settings.rate=-7):1:19: settings.rate: found -7, want a whole number >= 0"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestWithRefuses(t *testing.T) {
	d := document(t, shared+"twins: [{id: a}, {id: a}]\n")
	for settings, want := range map[string]string{
		"servers.web-3.cores=1": "servers.web-3.cores: f.yml:4: found no web-3 in servers, want an item " +
			"that stands there (web-1, web-2, third, web-1, 4); did you mean web-1?",
		"servers.web-1.cores=1": "servers.web-1.cores: f.yml:4: items 0 and 3 of servers are both named " +
			"web-1: write the number",
		"servers[9].cores=1": "servers[9].cores: f.yml:4: found no [9] in servers, want an item that " +
			"stands there",
		"twins.a.x=1": "twins.a.x: f.yml:19: items 0 and 1 of twins are both named a: write " +
			"the number",
		"settings.rate.mean=1": "settings.rate.mean: f.yml:1: settings.rate is 5 and has no mean",
		"settings[0]=1":        "settings[0]: f.yml:1: settings is a mapping and has no [0]",
		"settings.rate=a: b": `settings.rate: found "a: b", want one value (a number, a text, true or false), ` +
			`or a list or mapping in brackets; put a text in quotes`,
		"settings.rate=[1":         `settings.rate: found "[1", want one value`,
		"settings.rate=":           "settings.rate: found an empty value, want one value",
		"settings.rate=*disk":      `settings.rate: found "*disk", want one value`,
		"settings.rate=[&a 1, *a]": `settings.rate: found "[&a 1, *a]", want one value`,
		"settings.rate=\x1b":       `settings.rate: found "\x1b", want one value`,
		"settings..rate=1": "settings..rate: found an empty step, want the names of fields with " +
			"dots between, such as a.b[0].c",
		".rate=1":       ".rate: found an empty step",
		"[0]=1":         "[0]: found an empty step",
		"servers[x]=1":  `servers[x]: found "[x]", want the number of an item in brackets, such as [0]`,
		"servers[-1]=1": `servers[-1]: found "[-1]", want the number`,
		"servers[0]x=1": `servers[0]x: found "x" after [0], want a dot`,
		`"settings=1`:   `found "\"settings=1", want KEY=VALUE: the path of a field, and what it is to be`,
		"settings":      `found "settings", want KEY=VALUE`,
		"=1":            `found "=1", want KEY=VALUE`,
		"":              `found "", want KEY=VALUE`,
		"settings.rate=1|settings.rate=2": "settings.rate: another setting has put a value for settings.rate, or " +
			"into it: give one of them",
		"servers.1.id=x|servers.x.id=2": "servers.x.id: another setting has put a value for servers[1].id, or " +
			"into it: give one of them",
		"settings={rate: 1}|settings.x=2":    "settings.x: another setting has put a value for settings, or into it",
		"settings.rate=1|settings={rate: 2}": "settings: another setting has put a value for settings, or into it",
		strings.Repeat("a.", 70) +
			"a=1": "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.…: found more than 64 steps",
	} {
		_, err := with(t, d, strings.Split(settings, "|")...)
		var mistake *SettingError
		if !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", settings, err, want)
		}
	}
}

// FuzzWith: any setting of any file gives an error or a document in which the rest is what
// it was.
func FuzzWith(f *testing.F) {
	f.Add(shared, "servers.web-2.resources.cores", "16")
	f.Add("a: &a {b: [1]}\nc: {<<: *a}\n", `c.b[0]`, "{x: [y]}")
	f.Add("- &x {id: q}\n- *x\n", "q.id", "null")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		if len(text)+len(key)+len(value) > 1<<16 {
			t.Skip()
		}
		d, err := Parse("f.yml", []byte(text))
		if err != nil || len(d.text) > 1<<12 || values(d.root, new(int)) > 10_000 {
			return
		}
		before := leaves(d)
		after, err := d.With([]Setting{{key, value}})
		if err != nil {
			return
		}
		if !maps.Equal(before, leaves(d)) {
			t.Fatal("the document itself was changed")
		}
		steps, err := parseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		got, way := leaves(after), ""
		for path, old := range before {
			at, err := parseKey(path)
			if got[path] == old || old == "!!null " || err != nil || len(at) < len(steps) {
				continue
			}
			if here := fmt.Sprint(at[:len(steps)]); way != "" && here != way {
				t.Fatalf("%s=%s changes both %s and %s", key, value, way, here)
			} else {
				way = here
			}
		}
	})
}

// values counts what a tree holds with all aliases, up to a bound.
func values(n *yaml.Node, count *int) int {
	if *count++; *count <= 10_000 {
		for _, c := range follow(n).Content {
			values(c, count)
		}
	}
	return *count
}

// TestSettingInOneLine: messages that name a setting stay in one line, whatever it is.
func TestSettingInOneLine(t *testing.T) {
	if got := (Setting{"a", "1\n2\r\t3"}).String(); got != `a=1\n2\r\t3` {
		t.Errorf("got %q", got)
	}
	d, err := Parse("t.yml", []byte("a: 1"))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := d.With([]Setting{{"a", "1\n2"}})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(changed)
	r.Root("a").Field("a").Int(Between(1, 2))
	if err := r.Err(); err == nil || strings.Contains(strings.TrimSuffix(err.Error(), "\n"), "\n") {
		t.Errorf("got %q, want one line", err)
	}
}
