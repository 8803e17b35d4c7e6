// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/perf/bench"
)

// percentiles is a table as HdrHistogram prints it, in µs.
const percentiles = `Pinging 2000 messages of length 64 bytes
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.080     0.000000            1         1.00
       0.112     0.500000         1000         2.00
       0.125     0.900000         1800        10.00
       0.300     0.989000         1978        90.91
       2.000     0.992000         1984       125.00
       4.500     0.999000         1998      1000.00
      77.824     1.000000         2000          inf
#[Mean    =        0.150, StdDeviation   =        1.200]
#[Max     =       77.824, Total count    =         2000]
#[Buckets =           24, SubBuckets     =         2048]
`

func TestParseHDR(t *testing.T) {
	r, mean, err := parseHDR(percentiles)
	want := bench.RTT{P50: 112, P90: 125, P99: 300, P999: 4500, Max: 77824}
	if err != nil || r != want || mean != 150 {
		t.Errorf("%+v, mean %v, %v: want %+v and 150", r, mean, err, want)
	}
	for name, text := range map[string]string{
		"nothing":     "",
		"no table":    "#[Mean = 1, x]\n#[Max = 2, y]\n",
		"no mean":     strings.Replace(percentiles, "#[Mean", "#[Other", 1),
		"no maximum":  strings.Replace(percentiles, "#[Max", "#[Other", 1),
		"no median":   "0.2 0.9 1 10\n#[Mean = 1, x]\n#[Max = 2, y]\n",
		"not numbers": strings.ReplaceAll(percentiles, "0.", "x."),
		"not finite":  "NaN 0.5 1 2\n#[Mean = Inf, x]\n#[Max = NaN, y]\n",
	} {
		if r, mean, err := parseHDR(text); err == nil {
			t.Errorf("%s: %+v, mean %v, want an error", name, r, mean)
		}
	}
}

func FuzzParseHDR(f *testing.F) {
	f.Add(percentiles)
	f.Add("1e300 0.5 1 1\n#[Mean = 1, Max = 1]")
	f.Fuzz(func(t *testing.T, text string) {
		r, mean, err := parseHDR(text)
		if err == nil && (r.P50 <= 0 || r.P90 < 0 || r.P99 < 0 || r.P999 < 0 || r.Max < 0 || mean <= 0) {
			t.Errorf("%+v, mean %v", r, mean)
		}
	})
}

func TestParseStream(t *testing.T) {
	const good = "Streaming 100 messages of payload length 64 bytes to aeron:ipc\n0ms, 9 msgs/sec, 9 bytes/sec\n" +
		"Total: 2ms, 4.5e+07 msgs/sec, 2.9e+09 bytes/sec, totals 100 messages 0 MB payloads\n"
	if rate, err := parseStream(good, 64); err != nil || rate != 4.5e7 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, text := range []string{"", strings.Replace(good, "Total", "Sum", 1),
		strings.Replace(good, "4.5e+07", "0", 1), strings.Replace(good, "4.5e+07", "NaN", 1),
		strings.Replace(good, "length 64", "length 32", 1)} {
		if rate, err := parseStream(text, 64); err == nil {
			t.Errorf("%v of %q, want an error", rate, text)
		}
	}
}

// fakes puts shell scripts on the PATH as Aeron's programs. Those that are not in scripts sleep, or print what the
// real ones do. Each notes its process and its folder in the directory that it returns.
func fakes(t *testing.T, scripts map[string]string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = t.TempDir()
	all := map[string]string{
		aeronDriver: "mkdir $AERON_DIR; sleep 60", aeronPong: "sleep 60", aeronRead: "sleep 60",
		aeronPing: "cat <<'END'\n" + percentiles + "END",
		aeronSend: "echo payload length 64 bytes; echo 'Total: 2ms, 4.5e+07 msgs/sec, 2.9e+09 bytes/sec'",
	}
	for name, body := range scripts {
		all[name] = body
	}
	for name, body := range all {
		text := "#!/bin/sh\necho $$ $AERON_DIR >>" + notes + "/" + name + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return notes
}

// gone checks that every process that left a note has ended, and that its folder isn't there.
func gone(t *testing.T, notes string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(notes, "*"))
	if len(files) == 0 {
		t.Error("no program was started")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			pid, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			if _, err := os.Stat(filepath.Join("/proc", pid, "exe")); err == nil {
				t.Errorf("%s: process %s is left behind", filepath.Base(f), pid)
			}
			if _, err := os.Stat(filepath.Dir(dir)); dir == "" || !os.IsNotExist(err) {
				t.Errorf("%s: folder %q is left behind: %v", filepath.Base(f), dir, err)
			}
		}
	}
}

func testAeron(pin bool) *aeron {
	return newAeron(bench.Options{Payload: 64, Rounds: 1, Time: bench.TimeMin, Ring: bench.RingDefault, Pin: pin})
}

func TestAeronMeasures(t *testing.T) {
	notes := fakes(t, nil)
	for _, pin := range []bool{false, true} {
		a := testAeron(pin)
		if p := a.program(); p.absent != "" || p.absentStream != "" {
			t.Fatalf("absent: %q, %q", p.absent, p.absentStream)
		}
		r, err := a.latency(context.Background(), 64)
		if err != nil || r.RTT == nil || r.RTT.P50 != 112 || !r.Trips || r.Nanos != 150*int64(r.Events) {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err = a.stream(context.Background(), 64); err != nil || r.Events == 0 || r.Trips {
			t.Errorf("%+v, %v", r, err)
		}
	}
	gone(t, notes)
	text, err := os.ReadFile(filepath.Join(notes, aeronSend))
	if sends := strings.Count(string(text), "\n"); err != nil || sends != 4 {
		t.Errorf("%d streams, want a short and a long one each time: %v", sends, err)
	}
}

// However one of the programs fails, the measurement ends with an error that names it, and nothing is left.
func TestAeronBreaksDown(t *testing.T) {
	const slow = "sleep 60"
	for name, c := range map[string]struct {
		driver, ping, pong string // scripts; "": as they are
		want               string
	}{
		"the driver fails": {driver: "echo no room >&2; exit 3", ping: slow,
			want: "aeronmd ended before the measurement: peers: aeronmd: exit status 3: no room"},
		"the driver ends": {driver: "exit 0", ping: slow,
			want: "aeronmd ended before the measurement: it ended by itself"},
		"the driver dies":   {driver: "kill -9 $$", ping: slow, want: "aeronmd: signal: killed"},
		"pong dies":         {pong: "kill -9 $$", ping: slow, want: "cpong: signal: killed"},
		"ping fails":        {ping: "echo no driver; exit 1", want: "cping: exit status 1: no driver"},
		"ping prints other": {ping: "echo hello", want: `cping: printed "hello", want a table of percentiles`},
	} {
		t.Run(name, func(t *testing.T) {
			scripts := map[string]string{}
			for program, script := range map[string]string{aeronDriver: c.driver, aeronPing: c.ping,
				aeronPong: c.pong} {
				if script != "" {
					scripts[program] = script
				}
			}
			notes := fakes(t, scripts)
			begin := time.Now()
			r, err := testAeron(false).latency(context.Background(), 64)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v: want %q", r, err, c.want)
			}
			if took := time.Since(begin); took > programMax/2 {
				t.Errorf("it took %v", took)
			}
			gone(t, notes)
		})
	}
}

// An interrupt ends all programs, also while the driver's folder is in use.
func TestAeronInterrupted(t *testing.T) {
	notes := fakes(t, map[string]string{aeronPing: "sleep 60"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for { // until all three run
			if files, _ := filepath.Glob(filepath.Join(notes, "*")); len(files) == 3 || ctx.Err() != nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := testAeron(false).latency(ctx, 64); err == nil {
		t.Error("no error")
	}
	gone(t, notes)
}

func TestAeronIsAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if p := testAeron(false).program(); !strings.Contains(p.absent, "not on the PATH: aeronmd, cping, cpong (") ||
		!strings.Contains(p.absentStream, "streaming_publisher, rate_subscriber") {
		t.Errorf("%q, %q", p.absent, p.absentStream)
	}
}
