// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallScript: the script installs what is missing where it can, and passes wherever it can't. Stand-ins for id
// and apt-get come first on its PATH.
func TestInstallScript(t *testing.T) {
	script, err := filepath.Abs("server.sh")
	if err != nil {
		t.Fatal(err)
	}
	const install = `case $1 in install) : >"$JAR";; esac`
	const listFirst = `case $1 in update) : >"$JAR.list";; install) [ -e "$JAR.list" ] && : >"$JAR";; esac`
	for name, c := range map[string]struct {
		there   bool
		id, apt string
		said    string
	}{
		"there":            {true, "exit 1", "exit 1", ""},
		"installed":        {false, "echo 0", install, "installed ZooKeeper"},
		"after an update":  {false, "echo 0", listFirst, "installed ZooKeeper"},
		"not root":         {false, "echo 1000", install, "SKIPPED: ZooKeeper isn't installed: this isn't root"},
		"no such package":  {false, "echo 0", "exit 100", "SKIPPED: ZooKeeper isn't installed: apt-get can't"},
		"no network":       {false, "echo 0", "[ $1 = update ]", "SKIPPED: ZooKeeper isn't installed: apt-get can't"},
		"an empty package": {false, "echo 0", "exit 0", "SKIPPED: ZooKeeper isn't installed: the package"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, text := range map[string]string{"id": c.id, "apt-get": c.apt} {
				text = "#!/bin/sh\n" + text + "\n"
				if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			jar := filepath.Join(dir, "zookeeper.jar")
			if c.there {
				if err := os.WriteFile(jar, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sh", script, "ZooKeeper", "zookeeper", filepath.Join(dir, "none", "*"), jar)
			cmd.Env = append(os.Environ(), "JAR="+jar, "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), c.said) || c.said == "" && len(out) > 0 {
				t.Errorf("it ends with %v, want %q in\n%s", err, c.said, out)
			}
		})
	}
}
