// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesTravel: workers get the files that a scenario refers to with the scenario. They
// run when these have been deleted and the working folder is another one.
func TestFilesTravel(t *testing.T) {
	topology, err := os.ReadFile("../../model/network/testdata/net.gml")
	if err != nil {
		t.Fatal(err)
	}
	const text = "model: network\nhorizon: 1\ntopology: net.gml\ntraffic: { matrix: uniform, " +
		"packets_per_second: 500 }\n"
	hashes := make(map[string]bool)
	for _, transport := range []string{TransportInproc, TransportShm} {
		dir := t.TempDir()
		file := filepath.Join(dir, "net.gml")
		if err := os.WriteFile(file, topology, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		l, err := Prepare(config(transport, 3, text))
		if err != nil {
			t.Fatal(err)
		}
		files := l.Attached()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		out, err := l.Run(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", transport, err)
		}
		if out.Events == 0 || len(out.Workers) != 3 {
			t.Errorf("%s: %d events on %d workers", transport, out.Events, len(out.Workers))
		}
		hashes[out.TraceHash] = true
		if _, err := Prepare(config(transport, 3, text)); err == nil {
			t.Errorf("%s: the file is still there: the test does nothing", transport)
		}
		cfg := config(transport, 3, text)
		cfg.Attached = files
		again, err := Run(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s, with the caller's files: %v", transport, err)
		}
		hashes[again.TraceHash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("trace hashes %v", hashes)
	}
}
