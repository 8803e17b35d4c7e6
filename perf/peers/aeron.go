// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/shm"
)

// aeron is Aeron over its own shared memory (channel aeron:ipc), by the programs that come with its source: the media
// driver, the pair that pings and pongs, and the pair that streams. The driver is started for each measurement, in a
// folder of its own.
type aeron struct {
	options bench.Options
	cpus    [2]int // of the two sides, as disco's
}

const (
	aeronDriver = "aeronmd"
	aeronPing   = "cping"
	aeronPong   = "cpong"
	aeronSend   = "streaming_publisher"
	aeronRead   = "rate_subscriber"
)

func newAeron(o bench.Options) *aeron {
	a := &aeron{options: o, cpus: [2]int{bench.AnyCPU, bench.AnyCPU}}
	if cpus, err := shm.CPUs(); o.Pin && err == nil && len(cpus) > 0 {
		a.cpus = [2]int{cpus[0], cpus[1%len(cpus)]}
	}
	return a
}

func (a *aeron) program() program {
	return program{
		name: "aeron", wait: "spin", absent: absentAeron(aeronDriver, aeronPing, aeronPong),
		absentStream: absentAeron(aeronSend, aeronRead), latency: a.latency, stream: a.stream,
	}
}

// absentAeron is the note that some of Aeron's programs aren't there.
func absentAeron(names ...string) string {
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("not on the PATH: %s (build them from Aeron's source with cmake)", strings.Join(missing, ", "))
}

// latency is a ping-pong as long as --time where a round trip takes some 400 ns.
func (a *aeron) latency(ctx context.Context, payload int) (bench.Result, error) {
	trips := int(max(1000, a.options.Time.Nanoseconds()/400))
	out, cpu, err := a.run(ctx,
		command{name: aeronPing, cpu: a.cpus[0], args: []string{"-c", "aeron:ipc", "-C", "aeron:ipc", "-L",
			strconv.Itoa(payload), "-m", strconv.Itoa(trips), "-w", strconv.Itoa(trips / 5)}},
		command{name: aeronPong, cpu: a.cpus[1], args: []string{"-c", "aeron:ipc", "-C", "aeron:ipc"}})
	if err != nil {
		return bench.Result{}, err
	}
	rtt, mean, err := parseHDR(out)
	if err != nil {
		return bench.Result{}, fmt.Errorf("peers: %s: %w", aeronPing, err)
	}
	r := tripResult(trips, rtt, cpu)
	r.Nanos = int64(float64(trips) * mean)
	return r, nil
}

// stream is messages one way. A first, short stream shows that the reader is there: without one the sender would wait
// for it while its clock runs.
func (a *aeron) stream(ctx context.Context, payload int) (bench.Result, error) {
	events := int(max(10000, a.options.Time.Microseconds()*100/int64(1+payload/256)))
	send := func(events int) command {
		return command{name: aeronSend, cpu: a.cpus[0], args: []string{"-c", "aeron:ipc", "-L", strconv.Itoa(payload),
			"-m", strconv.Itoa(events)}}
	}
	reader := command{name: aeronRead, cpu: a.cpus[1], args: []string{"-c", "aeron:ipc"}}
	out, cpu, err := a.run(ctx, send(10000), reader, send(events))
	if err != nil {
		return bench.Result{}, err
	}
	rate, err := parseStream(out, payload)
	if err != nil {
		return bench.Result{}, fmt.Errorf("peers: %s: %w", aeronSend, err)
	}
	return streamResult(events, rate, cpu), nil
}

// run starts a driver and beside, which run until the others have ended; then first, and one after the other next. It
// returns what the last of these printed, and the CPU seconds of all of them. When the driver or beside ends too
// early, all end, and the error says which it was.
func (a *aeron) run(ctx context.Context, first, beside command, next ...command) (out string, cpu float64, err error) {
	parent, err := os.MkdirTemp(sharedMemory(), "disco-bench-aeron-")
	if err != nil {
		return "", 0, fmt.Errorf("peers: a folder for Aeron's driver: %w", err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "driver")
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex // guards cpu
	count := func(s float64) {
		mu.Lock()
		defer mu.Unlock()
		cpu += s
	}
	background := func(c command) {
		c.env = append(c.env, "AERON_DIR="+dir)
		all.Go(func() {
			_, used, err := runOn(ctx, c)
			count(used)
			if err == nil {
				err = errors.New("it ended by itself")
			}
			stop(fmt.Errorf("peers: %s ended before the measurement: %w", c.name, err))
		})
	}
	defer all.Wait() // before the folder goes
	defer stop(context.Canceled)
	background(command{name: aeronDriver, cpu: bench.AnyCPU, env: []string{"AERON_THREADING_MODE=SHARED"}})
	background(beside)
	for _, c := range append([]command{first}, next...) {
		var used float64
		c.env = append(c.env, "AERON_DIR="+dir)
		out, used, err = runOn(ctx, c)
		count(used)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause // why it was ended
			}
			return "", 0, err
		}
	}
	stop(context.Canceled)
	all.Wait() // so that all of the CPU time is counted
	return out, cpu, nil
}

// sharedMemory is where Aeron's files belong: in memory, if there is such a place.
func sharedMemory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return ""
}

// parseHDR reads a table of percentiles in µs, as HdrHistogram prints it, and the mean in ns. Between two lines it
// takes the lower one, so that an error is never to the peer's disadvantage.
func parseHDR(text string) (r bench.RTT, mean float64, err error) {
	wanted := []struct {
		share float64
		to    *int64
	}{{0.5, &r.P50}, {0.9, &r.P90}, {0.99, &r.P99}, {0.999, &r.P999}}
	nanos := func(micros float64) int64 { return int64(math.Round(1000 * micros)) }
	lines, largest := 0, -1.0
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "#["); ok {
			for _, field := range strings.Split(strings.TrimSuffix(rest, "]"), ",") {
				name, value, _ := strings.Cut(field, "=")
				v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				switch name = strings.TrimSpace(name); {
				case err != nil || !(v >= 0 && v < 1e12):
				case name == "Mean":
					mean = 1000 * v
				case name == "Max":
					largest = v
				}
			}
			continue
		}
		micros, share, ok := hdrLine(line)
		if !ok {
			continue
		}
		lines++
		for _, w := range wanted {
			if share <= w.share {
				*w.to = nanos(micros)
			}
		}
	}
	if lines == 0 || r.P50 == 0 || mean == 0 || largest < 0 {
		return bench.RTT{}, 0, fmt.Errorf("printed %q, want a table of percentiles with a mean and a maximum",
			lastLine(text))
	}
	r.Max = nanos(largest)
	return r, mean, nil
}

// hdrLine is one line of the table: value, percentile as a share, count, 1/(1-percentile).
func hdrLine(line string) (micros, share float64, ok bool) {
	f := strings.Fields(line)
	if len(f) != 4 {
		return 0, 0, false
	}
	micros, errA := strconv.ParseFloat(f[0], 64)
	share, errB := strconv.ParseFloat(f[1], 64)
	ok = errA == nil && errB == nil && micros >= 0 && micros < 1e12 && share >= 0 && share <= 1
	return micros, share, ok
}

// parseStream reads the total rate, in messages per second, of a stream of payloads.
func parseStream(text string, payload int) (rate float64, err error) {
	if want := fmt.Sprintf("payload length %d bytes", payload); !strings.Contains(text, want) {
		return 0, fmt.Errorf("printed %q, want %q: it has sent something else", lastLine(text), want)
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Total:")
		if !ok {
			continue
		}
		_, rest, _ = strings.Cut(rest, ",")
		number, _, found := strings.Cut(rest, "msgs/sec")
		rate, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if found && err == nil && rate > 0 && rate < 1e12 {
			return rate, nil
		}
	}
	return 0, fmt.Errorf("printed %q, want a line with \"Total: … msgs/sec\"", lastLine(text))
}
