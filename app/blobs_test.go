// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenBlobs: a directory is opened; what can't be is refused with what is allowed.
func TestOpenBlobs(t *testing.T) {
	p := &program{}
	dir := filepath.Join(t.TempDir(), "new")
	b, end, err := p.openBlobs(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(context.Background(), "run.json", strings.NewReader("x"), 1, true)
	if err != nil || b.String() != dir {
		t.Errorf("%v: %v", b, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	for address, want := range map[string]string{
		"":               "want a directory",
		"ftp://host/dir": "ftp://host/dir: found an address that begins with ftp://, want a directory",
	} {
		if _, _, err := p.openBlobs(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}
