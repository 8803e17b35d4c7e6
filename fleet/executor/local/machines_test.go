// SPDX-License-Identifier: Apache-2.0

package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// TestMachines: a job that is over several machines is begun with them, under the attempt's name; the machine that its
// run says is at fault is named where it is one of them. An executor without runs over machines refuses it.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	script := `#!/bin/sh
echo "$@"
while [ "$1" != --machines ]; do shift; done
cat "$2"
lost=$(cat ` + dir + `/lost)
echo '{"event": "failed", "text": "it was lost", "cause": "machine", "machine": "'$lost'", "status": 1}'
exit 1
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	o := options(filepath.Join(dir, "work"))
	o.Program, o.Joins = program, []string{"--group", "g", "--insecure"}
	l := open(t, o)
	defer closes(t, l)
	j := job(filepath.Join(dir, "place"))
	j.Machines = []executor.Machine{{Name: "h1", Address: "127.0.0.1:1", Slots: 2},
		{Name: "h2", Address: "127.0.0.1:2", Slots: 1}}
	for lost, where := range map[string]string{"h2": "h2", "h9": "", "": ""} {
		if err := os.WriteFile(filepath.Join(dir, "lost"), []byte(lost), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Prepare(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		r, err := l.Start(j)
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		if e := r.Outcome().Error; e == nil || e.Type != fleet.ErrorMachine || e.Where != where {
			t.Errorf("lost %q: found %+v, want it at %q", lost, e, where)
		}
		for _, want := range []string{"--group g --insecure --machines ", " --name x/0.0.0.1 ", `{"machines":[` +
			`{"address":"127.0.0.1:1","name":"h1","slots":2},{"address":"127.0.0.1:2","name":"h2","slots":1}]}`} {
			if out := string(r.Output()); !strings.Contains(out, want) {
				t.Errorf("the program says %s, want %s", out, want)
			}
		}
	}
	o.Work, o.Joins = filepath.Join(dir, "other"), nil
	alone := open(t, o)
	defer closes(t, alone)
	if err := alone.Prepare(t.Context(), j); err == nil || !strings.Contains(err.Error(), "want --listen") {
		t.Errorf("found %v", err)
	}
}
