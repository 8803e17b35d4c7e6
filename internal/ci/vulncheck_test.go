// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script around govulncheck passes where nothing is found, says so where it could not look,
// and fails on everything else. A stand-in for Go hands it a stand-in for govulncheck.
func TestVulncheckScript(t *testing.T) {
	script, err := filepath.Abs("vulncheck.sh")
	if err != nil {
		t.Fatal(err)
	}
	const failed = "govulncheck: fetching vulnerabilities: "
	const offline = failed + `Get "https://vuln.go.dev/index/modules.json.gz": no such host`
	for name, c := range map[string]struct {
		check string // the stand-in's program; "": it can't be built
		env   string
		ok    bool
		said  string
	}{
		"nothing found":     {"echo No vulnerabilities found.", "", true, "No vulnerabilities found."},
		"found":             {"echo Vulnerability 1; exit 3", "", false, "Vulnerability 1"},
		"offline":           {"echo '" + offline + "'; exit 1", "", true, "SKIPPED: known vulnerabilities"},
		"offline, required": {"echo '" + offline + "'; exit 1", "VULN=required", false, "FAILED"},
		"refused by a proxy": {"echo '" + failed + "HTTP GET x returned unexpected status: 403'; exit 1",
			"", true, "SKIPPED"},
		"a broken list":     {"echo '" + failed + "invalid character'; exit 1", "", false, "invalid character"},
		"found, and quoted": {"echo Vulnerability 1; echo '  " + offline + "'; exit 3", "", false, "Vulnerability 1"},
		"no answer":         {"exec sleep 60", "VULNTIME=1", true, "SKIPPED"},
		"not called": {`[ "$1" = -scan ] && { echo of a module; exit 3; }; echo No vulnerabilities found.`, "", true,
			"No vulnerabilities found."},
		"lost meanwhile": {`[ "$1" = -scan ] || { echo '` + offline + `'; exit 1; }`, "VULN=required", false, "FAILED"},
		"no tool":        {"", "", false, "no such tool"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				return path
			}
			build := "echo no such tool >&2; exit 1"
			if c.check != "" {
				build = "echo " + program("check", c.check)
			}
			cmd := exec.Command("sh", script)
			cmd.Env = append(os.Environ(), "GO="+program("go", build), "VULN=", c.env)
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.said) {
				t.Errorf("it ends with %v, want ok %v and %q in\n%s", err, c.ok, c.said, out)
			}
		})
	}
}
