// SPDX-License-Identifier: Apache-2.0

package machinefile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const good = `# three machines
machines:
  - {address: "h1:7400", slots: 2, labels: {rack: a}}
  - {address: "10.0.0.2:7400", name: second, labels: {rack: b, disk: "1"}}
  - address: "[fe80::1]:7400"
    slots: 64
    labels: {rack: a}
`

func TestParse(t *testing.T) {
	got, err := Parse("m.yaml", []byte(good))
	want := &List{File: "m.yaml", Machines: []Machine{
		{Address: "h1:7400", Name: "h1:7400", Slots: 2, Labels: map[string]string{"rack": "a"}},
		{Address: "10.0.0.2:7400", Name: "second", Labels: map[string]string{"rack": "b", "disk": "1"}},
		{Address: "[fe80::1]:7400", Name: "[fe80::1]:7400", Slots: 64, Labels: map[string]string{"rack": "a"}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if _, err := Read(t.TempDir() + "/none.yaml"); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("%v, want an error about the file", err)
	}
}

// What is wrong is named with its line, what was found and what is allowed.
func TestRefused(t *testing.T) {
	many := "machines:\n"
	for i := range MachinesMax + 1 {
		many += fmt.Sprintf("  - {address: \"h%d:1\"}\n", i)
	}
	one := func(fields string) string { return "machines:\n  - {address: \"h1:7400\"}\n  - {" + fields + "}\n" }
	for text, want := range map[string][]string{
		"":                                       {"m.yaml", "nothing but", `want a list "machines"`},
		"[":                                      {"m.yaml:1"},
		"- a\n":                                  {"m.yaml:1:1", "a list", "mapping"},
		"machines: 3\n":                          {"m.yaml:1:11", "a list"},
		"machines: []\n":                         {"m.yaml:1:11", "0 machines", "1 to 64"},
		"machine: []\n":                          {"m.yaml:1:1", "machine", "machines"},
		"model: x\nmachines: [{address: a:1}]":   {"m.yaml:1:1", "model"},
		many:                                     {"65 machines", "1 to 64"},
		one(""):                                  {"m.yaml:3", "machines[1].address"},
		one("address: 7400"):                     {"m.yaml:3:15", "machines[1].address"},
		one(`address: "h2"`):                     {"m.yaml:3:15", `"h2"`, "host and port"},
		one(`address: ":7400"`):                  {`":7400"`, "host and port"},
		one(`address: "h2:0"`):                   {`"h2:0"`, "host and port"},
		one(`address: "h2:65536"`):               {`"h2:65536"`, "host and port"},
		one(`address: "h2:+1"`):                  {`"h2:+1"`, "host and port"},
		one(`address: "h2:07400"`):               {`"h2:07400"`, "host and port"},
		one(`address: "h 2:1"`):                  {`"h 2:1"`, "host and port"},
		one(`address: "fe80::1:7400"`):           {"host and port"},
		one(`address: "[fe80::1:7400"`):          {"host and port"},
		one(`address: "[1.2.3.4]:7400"`):         {"host and port"},
		one(`address: "1.2.3.400:7400"`):         {"host and port"},
		one(`address: "H1:7400"`):                {"m.yaml:3:15", "a second time (the first is on line 2)", "once"},
		one(`address: "h2:1", name: "h1:7400"`):  {`the name "h1:7400" a second time (the first is on line 2)`},
		one(`address: "h2:1", slots: 0`):         {"m.yaml:3", "machines[1].slots", "1 to 64"},
		one(`address: "h2:1", slots: 65`):        {"65", "1 to 64"},
		one(`address: "h2:1", slots: 1.5`):       {"1.5", "1 to 64"},
		one(`address: "h2:1", slot: 1`):          {"slot", "slots"},
		one(`address: "h2:1", labels: a`):        {"machines[1].labels"},
		one(`address: "h2:1", labels: {a: [1]}`): {"machines[1].labels.a"},
		one(`address: "h2:1", slots: 0, name: ""`) + "x: 1\n": {"slots", "name", "x"}, // all at once
	} {
		list, err := Parse("m.yaml", []byte(text))
		if err == nil {
			t.Errorf("%q passes: %+v", text, list)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v\nwant %q in it", text, err, part)
			}
		}
	}
	twoSpellings := "machines: [{address: \"[fe80::1]:1\"}, {address: \"[FE80:0:0::1]:1\"}]\n"
	if _, err := Parse("m.yaml", []byte(twoSpellings)); err == nil || !strings.Contains(err.Error(), "second time") {
		t.Errorf("one address in two spellings: %v", err)
	}
}

func TestSelect(t *testing.T) {
	list, err := Parse("m.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		labels map[string]string
		want   []int
	}{
		{nil, []int{0, 1, 2}}, {map[string]string{"rack": "a"}, []int{0, 2}},
		{map[string]string{"rack": "b", "disk": "1"}, []int{1}}, {map[string]string{"rack": "a", "disk": "1"}, nil},
		{map[string]string{"room": ""}, nil},
	} {
		chosen, err := list.Select(c.labels)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), `there are ["disk=1" "rack=a" "rack=b"]`) {
				t.Errorf("%v: %v", c.labels, err)
			}
			continue
		}
		var want []Machine
		for _, i := range c.want {
			want = append(want, list.Machines[i])
		}
		if err != nil || !reflect.DeepEqual(chosen.Machines, want) {
			t.Errorf("%v: %+v, %v", c.labels, chosen, err)
		}
	}
	bare := &List{File: "m.yaml", Machines: []Machine{{Name: "a"}, {Name: "b"}}}
	const want = "m.yaml: no machine has the labels rack=a: none has any; its field labels gives it some"
	if _, err := bare.Select(map[string]string{"rack": "a"}); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestAssign(t *testing.T) {
	list := &List{File: "m.yaml", Machines: []Machine{{Name: "a", Slots: 2}, {Name: "b"}, {Name: "c", Slots: 3}}}
	all := []int32{0, 0, 2, 2, 2}
	for workers := range 6 {
		got, err := list.Assign(workers)
		if err != nil || !slices.Equal(got, all[:workers]) {
			t.Errorf("%d workers: %v, %v", workers, got, err)
		}
	}
	_, err := list.Assign(6)
	const want = "m.yaml: 6 workers, but the machines have 5 slots (a 2, b 0, c 3): use --workers 5"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// FuzzParse: whatever a file holds, it is refused, or a list within all bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("machines: [{address: a:1, <<: {slots: 2}}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse("m.yaml", text)
		if err != nil {
			return
		}
		addresses := map[string]bool{}
		for _, m := range list.Machines {
			same, ok := canonical(m.Address)
			if !ok || addresses[same] || m.Name == "" || m.Slots < 0 || m.Slots > SlotsMax {
				t.Fatalf("%+v", m)
			}
			addresses[same] = true
		}
		if n := len(list.Machines); n < 1 || n > MachinesMax {
			t.Fatalf("%d machines", n)
		}
	})
}
