// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/submission"
)

// What is large travels in parts, once however many points ask for it; what is too large is refused.
func TestGraphFiles(t *testing.T) {
	request := bytes.Repeat([]byte("r"), 3*submission.FileMax-100)
	text, err := (&graphdata.Data{Asked: request}).Append(nil)
	if err != nil || len(text) <= 2*submission.FileMax {
		t.Fatal(len(text), err)
	}
	s := &submission.Submission{File: "x.yml"}
	for range 2 {
		if err := addGraph(s, text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for i, name := range s.Files {
		path := filepath.Join(dir, filepath.Base(name))
		if len(s.Attached[i]) > submission.FileMax || filepath.Dir(name) != graphFolder {
			t.Errorf("found %s of %d bytes", name, len(s.Attached[i]))
		}
		if err := os.WriteFile(path, s.Attached[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := graphFiles(dir).Graph(request)
	if err != nil || !bytes.Equal(got, text) || len(s.Files) != 3 {
		t.Errorf("found %d bytes in %d files, %v, want %d bytes in 3", len(got), len(s.Files), err, len(text))
	}
	_, err = graphFiles(dir).Graph([]byte("another"))
	if err == nil || !strings.Contains(err.Error(), "--graph-files") {
		t.Errorf("found %v", err)
	}
	large := graphdata.Data{Asked: make([]byte, submission.AttachedMax+1)}
	if text, err = large.Append(nil); err != nil {
		t.Fatal(err)
	}
	err = addGraph(&submission.Submission{File: "x.yml"}, text)
	if statusOf(err) != ExitUsage || !strings.Contains(err.Error(), "at most 67108864") {
		t.Errorf("found %v", err)
	}
}
