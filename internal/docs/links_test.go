// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// start is the page from which every other one can be reached.
const start = "docs/README.md"

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// A page that a text names without a link: docs/sync.md, SECURITY.md.
	mention = regexp.MustCompile(`\b(?:docs|examples|perf)/[A-Za-z0-9/_-]+\.md\b`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchor is the name under which a page's reader finds a heading.
func anchor(heading string) string {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(heading))
}

// badLinks follows the links of all pages of a tree, and says which lead nowhere and which pages no link reaches.
func badLinks(tree fs.FS, pages map[string]string) (bad []string) {
	reached := map[string]bool{start: true}
	todo := []string{start}
	if pages[start] == "" {
		return []string{start + " is missing"}
	}
	links := func(page string) (to []string) {
		text := fenced.ReplaceAllString(pages[page], "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, name, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := fs.Stat(tree, target); err != nil {
				bad = append(bad, fmt.Sprintf("%s: the link to %s leads nowhere", page, m[1]))
				continue
			}
			named := slices.ContainsFunc(heading.FindAllStringSubmatch(pages[target], -1), func(h []string) bool {
				return anchor(h[1]) == name
			})
			if name != "" && !named {
				bad = append(bad, fmt.Sprintf("%s: %s has no heading for the link to %s", page, target, m[1]))
			}
			to = append(to, target)
		}
		return to
	}
	all := map[string][]string{}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		all[page] = links(page)
		for _, name := range mention.FindAllString(pages[page], -1) {
			if _, err := fs.Stat(tree, name); err != nil {
				bad = append(bad, fmt.Sprintf("%s names the page %s, which doesn't exist", page, name))
			}
		}
	}
	for len(todo) > 0 {
		page := todo[0]
		todo = todo[1:]
		for _, to := range all[page] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		if !reached[page] {
			bad = append(bad, fmt.Sprintf("%s: no link from %s leads there", page, start))
		}
	}
	return bad
}

// markdown reads all pages of a tree.
func markdown(tree fs.FS) (map[string]string, error) {
	pages := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != "." && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		pages[name] = string(text)
		return err
	})
	return pages, err
}

// TestLinks: every page of the tree can be reached from docs/README.md, and every link leads somewhere.
func TestLinks(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	pages, err := markdown(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 30 {
		t.Fatalf("found %d pages: the search is broken", len(pages))
	}
	for _, bad := range badLinks(tree, pages) {
		t.Error(bad)
	}
}

// TestBadLinks: what TestLinks looks for is found where it is, and only there.
func TestBadLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		start: "# Start\n[a](a.md) [up](../TOP.md#one-word--another) [web](https://example.org/x.md)\n" +
			"[here](#start)\n",
		"docs/a.md": "# A\n[b](b.md#b) [b](b.md#c) [gone](gone.md) `docs/lost.md` [code](../code.go)\n" +
			"```\n[x](y.md)\n```\n",
		"docs/b.md":      "# B\n",
		"docs/island.md": "# Island\n[self](island.md)\n",
		"TOP.md":         "# One `word`: & another\n",
		"code.go":        "package code\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := markdown(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/a.md: docs/b.md has no heading for the link to b.md#c",
		"docs/a.md: the link to gone.md leads nowhere",
		"docs/a.md names the page docs/lost.md, which doesn't exist",
		"docs/island.md: no link from docs/README.md leads there",
	}
	if found := badLinks(os.DirFS(dir), pages); !slices.Equal(found, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// TestStability: docs/stability.md says of every public package how stable it is, and of nothing else.
func TestStability(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "stability.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (`[a-z/`, ]+`) \\| (stable|evolving) \\|")
	said := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			name = strings.Trim(name, "`")
			if said[name] {
				t.Errorf("docs/stability.md: %s has two rows", name)
			}
			said[name] = true
		}
	}
	for _, name := range publicPackages(t) {
		if !said[name] {
			t.Errorf("docs/stability.md says nothing of the package %s", name)
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("docs/stability.md: %s is no public package", name)
	}
}

// publicPackages are those that other modules may import, but for measurements.
func publicPackages(t *testing.T) (names []string) {
	t.Helper()
	tree := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"internal", "cmd", "examples", "perf", "testdata", ".git"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		dir := path.Dir(name)
		code := path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
		if code && !slices.Contains(names, dir) {
			names = append(names, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
