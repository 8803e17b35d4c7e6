// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/newmodule"
	"github.com/urfave/cli/v2"
)

func (p *program) initCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "init",
		Usage:     "writes a module with a model to begin with into the new folder NAME",
		ArgsUsage: "NAME",
		Flags: []cli.Flag{
			textFlag(groupWhat, "from", newmodule.Templates[0], "`MODEL` to begin with: "+
				strings.Join(newmodule.Templates, ", ")),
			textFlag(groupWhat, "disco", "none", "`DIR` of disco's source, where its module can't be downloaded"),
		},
	}, p.init)
}

// init writes a module.
func (p *program) init(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return usage("found %d arguments, want one NAME: %s", c.Args().Len(), newmodule.Wanted)
	}
	m := newmodule.Module{Name: c.Args().First(), From: newmodule.Templates[0], Version: moduleVersion(Version())}
	if !newmodule.GoodName(m.Name) {
		return usage("found the name %q, want %s", m.Name, newmodule.Wanted)
	}
	if c.IsSet("from") {
		m.From = c.String("from")
	}
	if !slices.Contains(newmodule.Templates, m.From) {
		return usage("--from: found %q, want one of %s", m.From, strings.Join(newmodule.Templates, ", "))
	}
	if c.IsSet("disco") {
		dir, err := source(c.String("disco"))
		if err != nil {
			return err
		}
		m.Disco = dir
	}
	if err := newmodule.Write(m); errors.Is(err, fs.ErrExist) {
		return usage("%s exists: want a name that is free, or remove it", m.Name)
	} else if err != nil {
		return fmt.Errorf("init: %s can't be written: %w", m.Name, err)
	}
	tidy := ""
	if m.Disco == "" {
		tidy = "    go mod tidy\n"
		if m.Version == anyVersion {
			fmt.Fprintf(p.stderr, "%s is no release, which Go could download: --disco DIR says where its source is\n",
				Version())
		}
	}
	fmt.Fprintf(p.stdout, "%s: written; go on with\n    cd %s\n%s    go build\n    ./%s run %s.yml\n    go test\n",
		m.Name, m.Name, tidy, m.Name, m.Name)
	return nil
}

// anyVersion stands in go.mod for a version that a replace line gives.
const anyVersion = "v0.0.0"

var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// moduleVersion is what go.mod asks for: a release, or any.
func moduleVersion(v string) string {
	if release.MatchString(v) {
		return v
	}
	return anyVersion
}

// source is the folder of disco's source as an absolute path.
func source(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "sim", "simtest", "simtest.go"))
	}
	if err != nil {
		return "", usage("--disco: found no package sim in %s, want the folder of disco's source, where its "+
			"README.md is", dir)
	}
	return dir, nil
}
