// SPDX-License-Identifier: Apache-2.0

// Package examples has the scenarios of this folder in it, for the command `disco-run example`.
//
// Guarantee: what it gives are the files of the folder, byte by byte; a test runs each of them.
//
//	list, err := examples.List()
//	text, err := examples.Files.ReadFile(list[0].Files[0])
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// Files are the examples and what they refer to.
//
//go:embed *.yml *.gml *.sh
var Files embed.FS

// Example is a scenario.
type Example struct {
	Name  string   // its file's, without .yml
	About string   // the first line of the file's comment
	Files []string // its own, and those that it refers to
}

// besides are the files that examples refer to.
var besides = map[string][]string{"backbone": {"backbone.gml"}, "supply-graph": {"supply-graph.sh"}}

// List lists the examples by name.
func List() (list []Example, err error) {
	files, err := fs.Glob(Files, "*.yml")
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	for _, file := range files {
		text, err := Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("examples: %w", err)
		}
		name := strings.TrimSuffix(file, ".yml")
		first, _, _ := strings.Cut(string(text), "\n")
		list = append(list, Example{Name: name, About: strings.TrimSuffix(strings.TrimPrefix(first, "# "), "."),
			Files: append([]string{file}, besides[name]...)})
	}
	return list, nil
}
