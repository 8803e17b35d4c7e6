// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The manual page has each command and each flag that --help has, and groff finds nothing wrong with it.
func TestManual(t *testing.T) {
	bin := build(t, "")
	page, err := exec.Command(bin, "man").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("NOT TESTED: groff isn't installed")
	}
	cmd := exec.Command("groff", "-k", "-man", "-Tutf8", "-ww", "-rLL=200n", "-P-cbou")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(page), &stderr
	shown, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("groff: %v: %s", err, stderr.String())
	}
	for _, command := range []string{"run", "checkpoints", "schema"} {
		page, err := exec.Command(bin, "man", command).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("groff", "-k", "-man", "-Tutf8", "-ww", "-rLL=200n", "-z")
		cmd.Stdin = bytes.NewReader(page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("the page of %s: groff: %v: %s", command, err, out)
		}
	}
	text := string(shown)
	for _, command := range []string{"run", "explain", "checkpoints verify", "phold", "top"} {
		help, err := exec.Command(bin, append(strings.Fields(command), "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		flags := regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(string(help), -1)
		_, section, ok := strings.Cut(text, "\n   "+command)
		if !ok || len(flags) == 0 {
			t.Errorf("%s: not in the page, or without flags in its help (%d)", command, len(flags))
		}
		for _, f := range flags {
			if f[1] != "--help" && !strings.Contains(section, f[1]) {
				t.Errorf("%s: %s isn't in the page behind it", command, f[1])
			}
		}
	}
}
