// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// WriteGobench writes every round of every row as a line that benchstat reads.
func WriteGobench(w io.Writer, rows []Row) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: github.com/disco-sim/disco/cmd/disco-bench\ncpu: %s\n", runtime.GOOS,
		runtime.GOARCH, cpuModel())
	for i := range rows {
		r := &rows[i]
		for k, s := range r.rounds {
			if s.events == 0 && r.spec.By != ByCore {
				continue
			}
			fmt.Fprintf(w, "%s %d", benchName(r), max(1, s.events))
			if s.events > 0 {
				fmt.Fprintf(w, " %.4g ns/op %.5g MB/s %.4g allocs/op", float64(s.nanos)/float64(s.events),
					r.bytes(s.rate())/1e6, float64(s.mallocs)/s.transferred())
			}
			if s.histogram != nil {
				fmt.Fprintf(w, " %.4g p50-ns %d p99-ns", s.p50(), s.histogram.ValueAtPercentile(99))
			}
			if r.Limit != r.Bench {
				var limit sample
				if len(r.limits) > 0 {
					limit = r.limits[k]
				}
				if ratio, err := r.spec.ratio(s, limit); err == nil {
					fmt.Fprintf(w, " %.4g x-limit", ratio)
				}
			}
			fmt.Fprintln(w)
		}
	}
}

// benchName is the row's name as go test would print it.
func benchName(r *Row) string {
	name := strings.ToUpper(r.Bench[:1]) + strings.Map(func(c rune) rune {
		if c == ' ' || c == '/' {
			return '-'
		}
		return c
	}, r.Bench[1:])
	name = fmt.Sprintf("Benchmark%s/bytes=%d", name, r.PayloadBytes)
	if r.Batch > 0 {
		name += fmt.Sprintf("/batch=%d", r.Batch)
	}
	if r.Wait != "" {
		name += "/wait=" + r.Wait
	}
	return fmt.Sprintf("%s/processes=%d-%d", name, r.Processes, runtime.NumCPU())
}

// cpuModel is what the machine calls its processor.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
