// SPDX-License-Identifier: Apache-2.0

package graphcmd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/internal/storeserver"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the program says now")

// files are what the scripts find in their folder.
var files = map[string]string{
	"roads.csv": "source,target,weight,layer,name\nplant,depot,2,0,main\ndepot,shop a,1.5,0,\ndepot,shop b,1,0,\n" +
		"shop a,depot,1,1,\ndepot,plant,1,1,\nplant,shop a,1,1,\n",
	"more.csv": "source,target,weight,layer\nplant,depot,3,0\ndepot,shop b,1,0\ndepot,shop c,1,0\n",
	"labels.csv": "vertex,type,label\nplant,kind,plant\ndepot,kind,depot\nshop a,kind,shop\nshop b,kind,shop\n" +
		"shop a,region,north\n",
	"fewer.csv":       "vertex,type,label\nplant,kind,plant\nshop c,kind,shop\n",
	"bad.csv":         "source,target,weight\na,b,NaN\n",
	"huge.csv":        "source,target,weight\na,b,1e308\nb,c,1e308\n",
	"unnamed.csv":     "id,name\n0,x\n1,\n",
	"twice.csv":       "id,name\n0,x\n1,x\n",
	"pair.csv":        "source,target\n0,1\n",
	"hostile.csv":     "source,target\n\"'; DROP TABLE graph_edges; --\",\x1b[2Jb\n",
	"lines.csv":       "source,target\n\"a\nb\",\"c\r\nd\"\n\"c\r\nd\",\"a\nb\"\n",
	"line-labels.csv": "vertex,type,label\n\"a\nb\",\"k\nl\",\"v\nw\"\n",
	"short.parquet":   "abc",
	"no-label.csv":    "vertex,type\n",
	"text.db":         strings.Repeat("this is no database\n", 100),
}

// made is when a scenario was made.
var made = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:]{8} UTC|T[0-9:]{8}Z)`)

// TestScripts runs the commands in testdata and compares what they say: of each folder on SQLite, and of PostgreSQL.
// -update rewrites the files: read the difference before you keep it.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) < 2 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, path := range scripts {
		t.Run(filepath.Base(path), func(t *testing.T) { playScript(t, path, "sqlite:x.db", *update) })
	}
}

// TestPostgres runs the script of the verbs on PostgreSQL, which says the same.
func TestPostgres(t *testing.T) {
	server, err := storeserver.StartPostgres(t.Context())
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	playScript(t, "testdata/verbs.txt", server.URL(), false)
}

func playScript(t *testing.T, path, db string, update bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DISCO_DB", db)
	t.Chdir(dir)
	var got bytes.Buffer
	for line := range strings.Lines(string(want)) {
		switch {
		case strings.HasPrefix(line, "$ "):
			got.WriteString(line)
			got.WriteString(strings.ReplaceAll(play(strings.Fields(line[2:])), db, "DB"))
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			got.WriteString(line)
		}
	}
	if update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(want) {
		t.Errorf("%s: the program says\n%s\nwant\n%s", path, got.String(), want)
	}
}

// play runs one command: exit status, standard output behind "1> " and standard error behind "2> "; cat shows a file.
func play(args []string) string {
	var stdout, stderr bytes.Buffer
	for i := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], "␣", " "), `""`, "")
	}
	status := 0
	if args[0] == "cat" {
		text, err := os.ReadFile(args[1])
		fmt.Fprintf(&stdout, "%s", text)
		if err != nil {
			fmt.Fprintf(&stderr, "%v\n", err)
		}
	} else {
		args = append([]string{"disco-run"}, args...)
		status = app.RunWith(args, strings.NewReader(""), &stdout, &stderr, Commands())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d\n", status)
	for _, part := range []struct{ mark, text string }{{"1> ", stdout.String()}, {"2> ", stderr.String()}} {
		for line := range strings.Lines(part.text) {
			b.WriteString(part.mark + made.ReplaceAllString(strings.TrimSuffix(line, "\n"), "DATE") + "\n")
		}
	}
	return b.String()
}

// TestExportBesideWriter: an export is of one graph, though another one replaces it all the time.
func TestExportBesideWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("DISCO_DB", "sqlite:x.db")
	for _, name := range []string{"p", "q"} {
		text := "source,target,name\n"
		for i := range 50 {
			text += fmt.Sprintf("%s%d,%s%d,%s to %d\n", name, i, name, i+1, name, i)
		}
		if err := os.WriteFile(name+".csv", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"graph init", "graph import x --edges p.csv"} {
		if got := play(strings.Fields(line)); !strings.HasPrefix(got, "exit 0\n") {
			t.Fatal(line, got)
		}
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			cmd := exec.Command(os.Args[0], "graph", "import", "x", "--replace", "--edges",
				[]string{"q.csv", "p.csv"}[i%2])
			cmd.Env = append(os.Environ(), programEnv+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the writer: %v: %s", err, out)
				return
			}
		}
	})
	defer wait.Wait()
	defer close(done)
	for range 40 {
		got := play(strings.Fields("graph export x --edges e.csv"))
		text, err := os.ReadFile("e.csv")
		if err != nil || !strings.HasPrefix(got, "exit 0\n") {
			t.Fatal(got, err)
		}
		name := "p"
		if strings.Contains(string(text), "q0") {
			name = "q"
		}
		if n := strings.Count(string(text), name+" to "); n != 50 || strings.Count(string(text), name) != 150 {
			t.Fatalf("found %d names of %s in\n%s", n, name, text)
		}
	}
}

// TestMeanwhile: what another one has deleted is named, and not by its number alone.
func TestMeanwhile(t *testing.T) {
	db, err := sqldb.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g, err := graph.New(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = meanwhile(sqldb.Scenario{Name: "base"}, db.Store(t.Context(), 5, g, sqldb.Content{}))
	if err == nil || !strings.HasPrefix(err.Error(), `another one has deleted scenario "base" meanwhile: database `) ||
		strings.Contains(err.Error(), "as it was before") {
		t.Error(err)
	}
	if err := meanwhile(sqldb.Scenario{}, nil); err != nil {
		t.Error(err)
	}
}

// TestUnlessEnded: a signal doesn't wait for what reads a long file.
func TestUnlessEnded(t *testing.T) {
	ended := &app.Ended{Signal: syscall.SIGINT}
	ctx, cancel := context.WithCancelCause(t.Context())
	begun, release, left := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		<-begun
		cancel(ended)
	}()
	_, err := unlessEnded(ctx, func() (int, error) {
		defer close(left)
		close(begun)
		<-release
		return 1, nil
	})
	if !errors.Is(err, ended) {
		t.Error(err)
	}
	close(release)
	<-left
	if n, err := unlessEnded(t.Context(), func() (int, error) { return 2, nil }); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// TestExamples: the help ends with command lines that are right, which do, one behind the other, what they say.
func TestExamples(t *testing.T) {
	helptest.Check(t, Commands())
	t.Chdir(t.TempDir())
	for _, name := range []string{"roads.csv", "labels.csv"} {
		if err := os.WriteFile(name, []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range Commands()[0].Examples {
		if said := play(strings.Fields(line)); !strings.HasPrefix(said, "exit 0\n") {
			t.Errorf("%s: %s", line, said)
		}
	}
}
