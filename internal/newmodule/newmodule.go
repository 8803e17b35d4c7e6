// SPDX-License-Identifier: Apache-2.0

// Package newmodule writes the module of a new model: a program, a scenario, a test and a page, from templates.
//
// Guarantee: the folder appears with all its files or not at all, and nothing that exists is replaced.
//
//	err := newmodule.Write(newmodule.Module{Name: "office", From: "queue", Disco: "/home/me/disco"})
package newmodule

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed template
var templates embed.FS

// Templates are what a module can be made from; the first is the default.
var Templates = []string{"queue", "network", "process", "supply"}

// Module is what Write writes.
type Module struct {
	Name    string // of folder, module and model
	From    string // one of Templates
	Version string // of disco, for go.mod
	Disco   string // folder of disco's source, absolute, for go.mod; "": the module is downloaded
}

// Wanted is what a Name consists of.
const Wanted = "a letter, then at most 62 letters, digits and hyphens, all small, such as call-centre"

var (
	good    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	version = regexp.MustCompile(`^v[0-9]+$`) // Go takes it for a part of a module's path
)

// GoodName reports whether a module can have a name.
func GoodName(name string) bool { return good.MatchString(name) && !version.MatchString(name) }

// Write writes the module into a new folder of its name, in the current directory. The error of a folder that exists
// is fs.ErrExist.
func Write(m Module) (err error) {
	if _, err := os.Lstat(m.Name); err == nil {
		return fs.ErrExist
	}
	temp, err := os.MkdirTemp(".", "."+m.Name+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	for name, text := range m.files() {
		file := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.Rename(temp, m.Name) // refuses a folder that came meanwhile
}

// files are the module's, by name.
func (m Module) files() map[string]string {
	fill := strings.NewReplacer("@NAME@", m.Name, "@VERSION@", m.Version)
	files := map[string]string{}
	for name, from := range map[string]string{
		"go.mod": "go.mod.txt", "go.sum": "go.sum.txt", "README.md": "README.txt",
		"main.go": m.From + "/main.go.txt", "main_test.go": m.From + "/main_test.go.txt",
		m.Name + ".yml": m.From + "/scenario.yml", "testdata/TestModel.txt": m.From + "/snapshot.txt",
	} {
		text, err := templates.ReadFile(path.Join("template", from))
		if err != nil {
			panic(fmt.Sprintf("newmodule: there is no template %s: %v", m.From, err))
		}
		files[name] = fill.Replace(string(text))
	}
	if m.Disco != "" {
		files["go.mod"] += "\nreplace github.com/disco-sim/disco => " + strconv.Quote(m.Disco) + "\n"
	}
	return files
}
