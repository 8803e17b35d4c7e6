// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// album is a kind whose files refer to pictures of at most ten bytes.
func album() scenario.Kind {
	pictures := func(r *scenario.Reader) []scenario.Value { return r.Root("pictures").Field("pictures").List() }
	return scenario.Kind{
		Name: "album",
		Load: func(doc *scenario.Document, _ scenario.Options) (scenario.Scenario, error) {
			r := scenario.NewReader(doc)
			text := ""
			for _, v := range pictures(r) {
				path, picture := v.File()
				text += fmt.Sprintf("%s=%s ", filepath.Base(path), picture)
			}
			return stub{text, 1}, r.Err()
		},
		References: func(doc *scenario.Document) []scenario.Reference {
			var all []scenario.Reference
			for _, v := range pictures(scenario.NewReader(doc)) {
				all = append(all, scenario.Reference{Name: v.Text(), What: "a picture", BytesMax: 10})
			}
			return all
		},
	}
}

// TestAttach: files are read once, from the folder of the scenario's file, and Load finds
// them after they are gone, also in a document that was made anew of what travels.
func TestAttach(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for path, text := range map[string]string{a: "first", b: "0123456789"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reg, err := scenario.NewRegistry(album())
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("pictures: [a, " + b + ", a]")
	doc, err := scenario.Parse(filepath.Join(dir, "s.yml"), text)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reg.Attach(doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := len(read.Attachments()); got != 2 {
		t.Errorf("%d attachments, want 2", got)
	}
	for _, d := range []*scenario.Document{read, doc.Attach(read.Attachments())} {
		s, err := reg.Load(d, scenario.Options{})
		if err != nil || s.Name() != "a=first b=0123456789 a=first " {
			t.Errorf("%v, %v", s, err)
		}
	}
	if _, err := reg.Load(doc, scenario.Options{}); err == nil ||
		!strings.Contains(err.Error(), "s.yml:1:12: pictures[0]: found a file that is not attached ("+a+")") {
		t.Errorf("without attachments: %v", err)
	}
}

// TestAttachRefuses: a file that can't be had is a problem of the value that names it,
// beside all others.
func TestAttachRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 11), 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.Parse(filepath.Join(dir, "s.yml"), []byte("pictures: [none, large, 7, .]"))
	if err != nil {
		t.Fatal(err)
	}
	doc = album().Attach(doc, nil)
	if n := len(doc.Attachments()); n != 0 {
		t.Errorf("%d attachments", n)
	}
	_, err = album().Load(doc, scenario.Options{})
	want := strings.ReplaceAll("DIR/s.yml:1:12: pictures[0]: found no file of that name (DIR/none), "+
		"want the path of a picture, from the folder of this file\n"+
		"DIR/s.yml:1:18: pictures[1]: found a file of 11 bytes (DIR/large), "+
		"want the path of a picture of at most 10 bytes, from the folder of this file\n"+
		"DIR/s.yml:1:25: pictures[2]: found 7, want text; write \"7\" in quotes if it is meant as text\n"+
		"DIR/s.yml:1:28: pictures[3]: found a directory (DIR), "+
		"want the path of a picture, from the folder of this file", "DIR", dir)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestFiles: what was read for one document is there for the next, though the file has
// changed, and counts towards the limit of each.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.Parse(filepath.Join(dir, "s.yml"), []byte("pictures: [a, b]"))
	if err != nil {
		t.Fatal(err)
	}
	var files scenario.Files
	for _, change := range []string{"none", "changed", "gone"} {
		switch change {
		case "changed":
			for _, name := range []string{"a", "b"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("second"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case "gone":
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		read := album().Attach(doc, &files).Attachments()
		if len(read) != 1 || read[0].Name != "a" || string(read[0].Text) != "first" {
			t.Errorf("%s: %v", change, read)
		}
	}
}
