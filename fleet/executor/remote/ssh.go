// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
)

// SSH is the machines of a list, reached by the system's ssh with the user's own configuration: names, users, ports,
// keys and jumps are written there. It never asks anybody anything, so host keys must be known. host starts a host
// there; options stand before the machine's name.
func SSH(machines []Machine, options, host []string) []Machine {
	all := make([]Machine, len(machines))
	for i, m := range machines {
		m.Command = append([]string{"ssh", "-T", "-o", "BatchMode=yes"}, options...)
		m.Command = append(m.Command, "--", m.Name, quoted(host))
		all[i] = m
	}
	return all
}

// quoted is a command as a shell reads it back.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// Bounds of a list of machines.
const (
	machinesMax = 1000
	slotsMax    = 4096
	nameMax     = 255 // bytes
)

var machinesKind = infile.Kind{Name: "a file with lines MACHINE SLOTS", BytesMax: 1 << 20}

// ReadMachines reads a file with a line for each machine: what ssh calls it, and its slots. Empty lines and what stands
// behind # are left out. The error names the line.
func ReadMachines(path string) ([]Machine, error) {
	text, err := infile.Read(path, machinesKind)
	if err != nil {
		return nil, err
	}
	var all []Machine
	lines := map[string]int{}
	for i, line := range bytes.Split(text, []byte("\n")) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			continue
		}
		slots := 0
		if len(words) == 2 {
			slots, _ = strconv.Atoi(words[1]) // what is no number is 0
		}
		switch before := lines[words[0]]; {
		case slots < 1 || slots > slotsMax || len(words[0]) > nameMax || words[0][0] == '-':
			return nil, fmt.Errorf("%s:%d: found %.80q, want MACHINE SLOTS, such as h1 8, with 1 to %d slots", path,
				i+1, strings.Join(words, " "), slotsMax)
		case before > 0:
			return nil, fmt.Errorf("%s:%d: found %s for the second time, the first is in line %d: want each once",
				path, i+1, words[0], before)
		case len(all) == machinesMax:
			return nil, fmt.Errorf("%s:%d: found more than %d machines", path, i+1, machinesMax)
		}
		lines[words[0]] = i + 1
		all = append(all, Machine{Name: words[0], Slots: slots})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: found no machine, want a line MACHINE SLOTS, such as h1 8", path)
	}
	return all, nil
}
