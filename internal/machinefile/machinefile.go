// SPDX-License-Identifier: Apache-2.0

// Package machinefile reads the file that lists the machines of a run.
//
//	machines:
//	  - {address: "h1:7400", slots: 2, labels: {rack: a}}
//	  - {address: "10.0.0.2:7400", name: second}
//
// Guarantee: all that is wrong with a file is found at once, with its line and column, what was found and what is
// allowed (scenario.Problems). A List that was read has 1 to 64 machines, no two with one address or one name.
//
//	list, err := machinefile.Read("machines.yaml")
//	list, err = list.Select(map[string]string{"rack": "a"})
//	machineOf, err := list.Assign(8)
package machinefile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/scenario"
)

// Bounds of a file.
const (
	MachinesMax = 64 // machines of a run
	SlotsMax    = 64 // workers of a machine

	textMax = 255 // characters of a name, an address, a label
)

// Machine is one of them.
type Machine struct {
	Address string // host:port of its agent
	Name    string // as the file says, or the address
	Slots   int    // workers that it takes; 0: as many as its agent says
	Labels  map[string]string
}

// List is the machines of a run, in their order.
type List struct {
	File     string // its name, for messages
	Machines []Machine
}

const wanted = `a list "machines" of at least one {address: "host:port"}`

// Read reads a file.
func Read(path string) (*List, error) {
	text, err := infile.Read(path, infile.Kind{Name: "a file with " + wanted, BytesMax: scenario.FileBytesMax})
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	return Parse(path, text)
}

// Parse reads the text of a file; name stands for it in messages.
func Parse(name string, text []byte) (*List, error) {
	doc, err := scenario.Parse(name, text)
	if problems := (scenario.Problems)(nil); errors.As(err, &problems) {
		for i := range problems {
			if problems[i].Want == "a scenario" { // there is nothing in the file
				problems[i].Want = wanted
			}
		}
	}
	if err != nil {
		return nil, err
	}
	r := scenario.NewReader(doc)
	list := &List{File: name}
	machines := r.Whole().Section("machines").Field("machines")
	items := machines.List()
	if n := len(items); machines.IsList() && (n < 1 || n > MachinesMax) {
		machines.Refuse(fmt.Sprintf("%d machines", n), fmt.Sprintf("1 to %d", MachinesMax), "")
	}
	addresses, names := map[string]int{}, map[string]int{}
	for _, item := range items {
		s := item.Section("address", "name", "slots", "labels")
		m := Machine{Address: readAddress(s.Field("address"), addresses)}
		if m.Name = m.Address; s.Field("name").Present() {
			m.Name = s.Field("name").ID(textMax)
		}
		if first, twice := names[m.Name]; twice && m.Name != "" {
			s.At().Refuse(fmt.Sprintf("the name %q a second time (the first is on line %d)", m.Name, first),
				"every name once", "")
		}
		names[m.Name] = item.Line()
		if s.Field("slots").Present() {
			m.Slots = s.Field("slots").Int(scenario.Between(1, SlotsMax))
		}
		m.Labels = readLabels(s.Field("labels"))
		list.Machines = append(list.Machines, m)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

func readLabels(v scenario.Value) map[string]string {
	if !v.Present() {
		return nil
	}
	labels := map[string]string{}
	for _, e := range v.Entries() {
		labels[e.Name] = e.Value.ID(textMax)
	}
	return labels
}

// readAddress reads an address that isn't among those before it, by the form in which they are compared.
func readAddress(v scenario.Value, before map[string]int) string {
	refusals := v.Reader().Refusals()
	text := v.ID(textMax)
	if v.Reader().Refusals() > refusals {
		return ""
	}
	same, ok := canonical(text)
	if !ok {
		v.Refuse(strconv.Quote(text), `the host and port of an agent, such as "h1:7400", "10.0.0.1:7400" or `+
			`"[fe80::1]:7400"`, "")
		return ""
	}
	if first, twice := before[same]; twice {
		v.Refuse(fmt.Sprintf("the address %s a second time (the first is on line %d)", text, first),
			"every machine once", "say with slots how many workers one takes")
		return ""
	}
	before[same] = v.Line()
	return text
}

// canonical is one form of an address in all its spellings.
func canonical(address string) (text string, ok bool) {
	at := strings.LastIndexByte(address, ':')
	if at < 1 {
		return "", false
	}
	host, digits := address[:at], address[at+1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || digits[0] == '0' {
		return "", false
	}
	if inside, six := strings.CutPrefix(host, "["); six {
		inside, six = strings.CutSuffix(inside, "]")
		ip, err := netip.ParseAddr(inside)
		if !six || err != nil || !ip.Is6() {
			return "", false
		}
		host = ip.String()
	} else if strings.Trim(host, "0123456789.") == "" {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is4() {
			return "", false
		}
	} else if !isName(host) {
		return "", false
	}
	return strings.ToLower(host) + " " + strconv.FormatUint(port, 10), true
}

// isName tells whether a host's name has the characters of one.
func isName(host string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// Select is the machines that have all these labels. None is an error.
func (l *List) Select(labels map[string]string) (*List, error) {
	chosen := &List{File: l.File}
	for _, m := range l.Machines {
		has := true
		for key, value := range labels {
			v, ok := m.Labels[key]
			has = has && ok && v == value
		}
		if has {
			chosen.Machines = append(chosen.Machines, m)
		}
	}
	if len(chosen.Machines) > 0 {
		return chosen, nil
	}
	var there []string
	for _, m := range l.Machines {
		for key, value := range m.Labels {
			there = append(there, key+"="+value)
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%s: no machine has the labels %s: none has any; its field labels gives it some",
			l.File, pairs(labels))
	}
	slices.Sort(there)
	return nil, fmt.Errorf("%s: no machine has all of the labels %s: there are %q", l.File, pairs(labels),
		slices.Compact(there))
}

func pairs(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Assign numbers workers machine by machine, each filled up to its slots: the machine of each worker. Machines whose
// slots aren't known (0) take none. More workers than slots are an error.
func (l *List) Assign(workers int) ([]int32, error) {
	var of []int32
	var each []string
	all := 0
	for i, m := range l.Machines {
		all += m.Slots
		each = append(each, fmt.Sprintf("%s %d", m.Name, m.Slots))
		for range min(m.Slots, workers-len(of)) {
			of = append(of, int32(i))
		}
	}
	if workers > all {
		return nil, fmt.Errorf("%s: %d workers, but the machines have %d slots (%s): use --workers %d, or more "+
			"machines or slots", l.File, workers, all, strings.Join(each, ", "), all)
	}
	return of, nil
}
