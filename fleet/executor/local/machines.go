// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/fleet/executor"
)

// machinesFile lists the machines of a job, in its folder.
func (l *Local) machinesFile(j *executor.Job) string {
	return filepath.Join(l.folder(j), "machines.yml")
}

// listMachines writes the file with the machines of a job that is over several. JSON is YAML, too.
func (l *Local) listMachines(j *executor.Job) error {
	if len(j.Machines) == 0 {
		return nil
	}
	type machine struct {
		Address string `json:"address"`
		Name    string `json:"name"`
		Slots   int    `json:"slots"`
	}
	var all []machine
	for _, m := range j.Machines {
		all = append(all, machine{m.Address, m.Name, m.Slots})
	}
	text, err := json.Marshal(map[string][]machine{"machines": all})
	if err != nil {
		return err
	}
	return os.WriteFile(l.machinesFile(j), append(text, '\n'), 0o600)
}

// joins are the flags of a run of a job that is over several machines. Its name says to their agents which attempt it
// is: their servers are promised to that.
func (l *Local) joins(j *executor.Job) []string {
	if len(j.Machines) == 0 {
		return nil
	}
	return append(slices.Clone(l.o.Joins), "--machines", l.machinesFile(j), "--name", j.Name())
}

// isMachine tells whether a job is over several machines, of which one has this name.
func isMachine(j *executor.Job, name string) bool {
	return slices.ContainsFunc(j.Machines, func(m executor.Machine) bool { return m.Name == name })
}
