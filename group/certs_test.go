// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/internal/script"
)

// dates change from run to run.
var dates = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC`)

// TestCerts types the commands of testdata/certs.txt, each in the folder that the ones before have left. "ls" shows
// the folder; "expired DIR" makes an authority in it whose days are over.
func TestCerts(t *testing.T) {
	pattern, err := filepath.Abs("testdata/certs.txt")
	if err != nil {
		t.Fatal(err)
	}
	script.Run(t, pattern, func(t *testing.T) script.Machine {
		t.Chdir(t.TempDir())
		return func(words []string) string {
			switch words[0] {
			case "ls":
				return listing(t)
			case "expired":
				v := certs.Period(0)
				v.Until = v.From.Add(1)
				return fmt.Sprint(certs.Init(words[1], v))
			case "chmod":
				return fmt.Sprint(os.Chmod(words[1], 0o644))
			}
			status, out, errors := run("", words...)
			return dates.ReplaceAllString(fmt.Sprintf("exit %d\n%s%s", status, out, errors), "DATE")
		}
	})
}

// listing is all files with their modes.
func listing(t *testing.T) string {
	var b strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := d.Info()
		fmt.Fprintln(&b, info.Mode(), path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExamples: the help of each command ends with command lines that are right.
func TestExamples(t *testing.T) { helptest.Check(t, Commands()) }
