// SPDX-License-Identifier: Apache-2.0

package submission

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What was written is read again, and what isn't whole is an error.
func TestReadWrite(t *testing.T) {
	dir := t.TempDir()
	s := &Submission{File: "shop.yml", Args: []string{"--set", "a=\"x\\ny\""},
		Points: [][]string{{"b=1"}}, Replications: 3, Workers: 2, Files: []string{"net.gml", "below/empty"},
		Text: []byte("model: x\n"), Attached: [][]byte{[]byte("graph"), {}}}
	if err := Write(dir, s); err != nil {
		t.Fatal(err)
	}
	back, err := Read(dir)
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("found %+v, %v, want %+v", back, err, s)
	}
	for name, text := range map[string]string{"1": "", manifest: "{", "text": ""} {
		path := filepath.Join(dir, name)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: found %v", name, err)
		}
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
