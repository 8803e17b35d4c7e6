// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/examples"
	"github.com/urfave/cli/v2"
)

// exampleCommand gives people a scenario to begin with.
func exampleCommand() app.Command {
	return app.Command{
		Name: "example", Usage: "lists scenarios to begin with, prints one, or writes its files", ArgsUsage: "[NAME]",
		Examples: []string{"example shop > shop.yml   # then: disco-run run shop.yml",
			"example backbone --to .   # with the file of its topology"},
		Flags: []cli.Flag{&cli.StringFlag{Name: "to", DefaultText: "standard output",
			Usage: "`DIR` to write the example's files to, none of which may be there; made where it is missing"}},
		Run: example, Complete: exampleNames,
	}
}

// exampleNames are what example may be asked for.
func exampleNames() (names []string) {
	list, err := examples.List()
	if err != nil {
		return nil // example itself says so
	}
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func example(c *app.Call) error {
	list, err := examples.List()
	if err != nil {
		return err
	}
	if c.NArg() > 1 {
		return app.Usage("found %d arguments, want one NAME, or none for a list", c.NArg())
	}
	name := strings.TrimSuffix(c.Args().First(), ".yml")
	at := slices.IndexFunc(list, func(e examples.Example) bool { return e.Name == name })
	switch {
	case c.NArg() == 0 && c.IsSet("to"):
		return app.Usage("found --to without a NAME: `%s example` lists them", c.Program)
	case c.NArg() == 0:
		return listExamples(c, list)
	case at < 0:
		return app.Usage("found no example %q: `%s example` lists them", name, c.Program)
	case c.IsSet("to"):
		return writeExample(c, &list[at], c.String("to"))
	}
	text, err := examples.Files.ReadFile(list[at].Files[0])
	if err != nil {
		return err
	}
	if _, err := c.Stdout.Write(text); err != nil {
		return err
	}
	if more := list[at].Files[1:]; len(more) > 0 {
		_, err = fmt.Fprintf(c.Stderr, "it refers to %s: `%s example %s --to DIR` writes that too\n",
			strings.Join(more, ", "), c.Program, name)
	}
	return err
}

func listExamples(c *app.Call, list []examples.Example) error {
	for _, e := range list {
		if _, err := fmt.Fprintf(c.Stdout, "%-14s%s\n", e.Name, e.About); err != nil {
			return err
		}
	}
	return nil
}

// writeExample writes all files of an example, or none.
func writeExample(c *app.Call, e *examples.Example, dir string) error {
	if dir == "" {
		return app.Usage("--to: found nothing, want a directory")
	}
	for _, file := range e.Files {
		path := filepath.Join(dir, file)
		if _, err := os.Lstat(path); err == nil {
			return app.Usage("--to: %s exists: remove it, or name another directory", path)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return app.Usage("--to: %v", err)
	}
	for i, file := range e.Files {
		text, err := examples.Files.ReadFile(file)
		if err == nil {
			err = writeNew(filepath.Join(dir, file), text)
		}
		if err != nil {
			for _, written := range e.Files[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, written)))
			}
			return fmt.Errorf("--to: %w", err)
		}
	}
	_, err := fmt.Fprintf(c.Stdout, "%s\n", strings.Join(e.Files, "\n"))
	return err
}

// writeNew writes a file that isn't there yet, or none.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
