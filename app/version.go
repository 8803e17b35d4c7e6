// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the Makefile: -ldflags "-X …/app.version=…".
var version string

// Version is the program's version: the one set by the Makefile, or the one that the Go tool stored in the
// executable.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	if v == "" {
		return "unknown"
	}
	return v
}

func (p *program) versionCommand() *cli.Command {
	return p.command(cli.Command{
		Name:  "version",
		Usage: "says which version this is",
	}, func(c *cli.Context) error {
		if c.Args().Len() > 0 {
			return usage("found %s, want no arguments", quoted(c.Args().Slice()))
		}
		fmt.Fprintf(p.stdout, "%s %s (%s, %s/%s)\n", p.name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	})
}
