// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/service"
)

// notebookModules is what the notebook and its test need, besides Python.
const notebookModules = "pandas, pyarrow, duckdb, matplotlib, nbformat, nbclient, ipykernel"

// notebook compares what pyarrow and DuckDB read of each Parquet file of two directories, and runs the notebook.
const notebook = `
import os, sys, tempfile
from pathlib import Path
import duckdb, nbformat, pandas as pd
from nbclient import NotebookClient
files = [f for d in ("DISCO_OUT", "DISCO_OUT_SWEEP") for f in sorted(Path(os.environ[d]).glob("*.parquet"))]
for file in files:
    a = pd.read_parquet(file)
    b = duckdb.sql(f"select * from '{file}'").df()
    pd.testing.assert_frame_equal(a.convert_dtypes(), b.convert_dtypes(), check_dtype=False)
n = nbformat.read(sys.argv[1], 4)
nbformat.validate(n)
NotebookClient(n, timeout=120, kernel_name="python3").execute()
pictures = sum("image/png" in o.get("data", {}) for c in n.cells if c.cell_type == "code" for o in c.outputs)
print(len(files), "files", pictures, "pictures")
`

// TestNotebook: examples/results.ipynb runs, and draws its pictures; pyarrow and DuckDB read the same of all files.
// DISCO_PYTHON names the Python with the modules, where that isn't python3.
func TestNotebook(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("runs another program")
	}
	python := os.Getenv("DISCO_PYTHON")
	if python == "" {
		python = "python3"
	}
	if text, err := exec.Command(python, "-c", "import "+notebookModules).CombinedOutput(); err != nil {
		t.Skipf("the notebook was not run: %s has not all of %s: %v: %.200s", python, notebookModules, err, text)
	}
	dir := t.TempDir()
	out, swept := filepath.Join(dir, "out"), filepath.Join(dir, "swept")
	for _, args := range [][]string{
		{"--horizon", "60", "--replications", "3", "--records", "--out", out},
		{"--horizon", "20", "--sweep", "rqs_input.avg_active_users.mean=15,90", "--out", swept},
	} {
		args = append([]string{"disco-run", "run", "../../examples/mini.yml", "--transport", "inproc"}, args...)
		var stdout, stderr bytes.Buffer
		if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, service.Kind()); status != app.ExitOK {
			t.Fatalf("%v: exit status %d: %s", args, status, stderr.String())
		}
	}
	cmd := exec.Command(python, "-c", notebook, "../../examples/results.ipynb")
	cmd.Env = append(os.Environ(), "DISCO_OUT="+out, "DISCO_OUT_SWEEP="+swept, "HOME="+dir, "TMPDIR="+dir)
	text, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "8 files 3 pictures") {
		t.Fatalf("%v: %s", err, text)
	}
}
