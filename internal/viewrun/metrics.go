// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	samplePeriod = 40 * time.Millisecond // between two looks at what workers do
	lookPeriod   = time.Second           // between two looks at all that they show
	lanesMax     = 256                   // that have metrics of their own
)

// metrics is what Prometheus gets of a run: what its boards show (package inspect), as it was at the last look.
type metrics struct {
	pid     int
	version string

	mu      sync.Mutex // guards the rest
	view    *inspect.View
	seconds map[stateOf]float64 // since the first look, estimated from samples
	moved   map[[2]int]float64  // bytes, by lane, likewise
	memory  map[int]float64     // bytes, by process
}

// stateOf is a state of a worker.
type stateOf struct {
	worker int
	state  string
}

func newMetrics(pid int, version string) *metrics {
	return &metrics{pid: pid, version: version, seconds: map[stateOf]float64{}, moved: map[[2]int]float64{}}
}

// watch looks at the run until over is closed.
func (m *metrics) watch(over <-chan struct{}) {
	var live *inspect.Live
	defer func() {
		if live != nil {
			_ = live.Close() // mappings for reading
		}
	}()
	sample, look := time.NewTicker(samplePeriod), time.NewTicker(lookPeriod)
	defer sample.Stop()
	defer look.Stop()
	for {
		live = m.look(live)
		for looked := false; !looked; {
			select {
			case <-over:
				return
			case <-sample.C:
				if live != nil {
					live.Sample()
				}
			case <-look.C:
				looked = true
			}
		}
	}
}

// look takes what the run shows. It is opened anew where it has begun anew; one that only begins shows nothing.
func (m *metrics) look(live *inspect.Live) *inspect.Live {
	var v *inspect.View
	var err error
	if live == nil {
		live, err = inspect.Open(m.pid)
	}
	if err == nil {
		v, err = live.Look()
	}
	if err != nil {
		if live != nil {
			_ = live.Close() // mappings for reading
		}
		live, v = nil, nil
	}
	memory := map[int]float64{}
	if v != nil {
		for _, pid := range append(pids(v), m.pid) {
			if use, err := procfs.PrivateBytes(pid); err == nil {
				memory[pid] = float64(use)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view, m.memory = v, memory
	if v == nil {
		return nil
	}
	for i := range v.Workers {
		s := &v.Shares[i]
		for state, share := range map[string]float64{"busy": s.Busy, "blocked": s.Blocked, "room": s.Room,
			"outside": s.Outside, "parked": s.Parked} {
			m.seconds[stateOf{v.Workers[i].Index, state}] += share * v.Seconds
		}
	}
	for _, l := range v.Lanes {
		m.moved[[2]int{l.From, l.To}] += l.PerSecond * v.Seconds
	}
	return live
}

// processes are those of the run on this machine, by their names.
func (m *metrics) processes() map[string]int {
	all := map[string]int{"launcher": m.pid}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.view != nil {
		for i := range m.view.Workers {
			if w := &m.view.Workers[i]; w.PID > 0 {
				all["worker-"+strconv.Itoa(w.Index)] = w.PID
			}
		}
	}
	return all
}

// processNames are the names in the order of the workers.
func processNames(all map[string]int) []string {
	names := slices.Collect(maps.Keys(all))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names
}

// pids are the processes of the workers.
func pids(v *inspect.View) (all []int) {
	for i := range v.Workers {
		if pid := v.Workers[i].PID; pid > 0 {
			all = append(all, pid)
		}
	}
	return all
}

// desc describes a metric.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("disco_"+name, help, labels, nil)
}

// number is a metric that is one number of each board.
type number struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   string
}

var (
	numbers = []number{
		{desc("worker_epoch_seconds", "Simulated seconds up to which a worker is done.", "worker"),
			prometheus.GaugeValue, worker.NumberEpoch},
		{desc("worker_events_total", "Events that a worker has handled in the replication under way.", "worker"),
			prometheus.CounterValue, worker.NumberEvents},
		{desc("worker_calls_total", "Calls of handlers in the replication under way.", "worker"),
			prometheus.CounterValue, worker.NumberActivations},
		{desc("worker_sent_events_total", "Events that a worker has sent to others.", "worker"),
			prometheus.CounterValue, worker.NumberSent},
		{desc("worker_received_events_total", "Events that a worker has got from others.", "worker"),
			prometheus.CounterValue, worker.NumberReceived},
		{desc("worker_promises_total", "Promises that a worker has published.", "worker"),
			prometheus.CounterValue, worker.NumberPromises},
		{desc("worker_idle_jumps_total", "Idle moments behind which a worker has gone on.", "worker"),
			prometheus.CounterValue, worker.NumberJumps},
		{desc("worker_full_waits_total", "Times that a full lane has made a worker wait.", "worker"),
			prometheus.CounterValue, worker.NumberFullWaits},
		{desc("worker_replications_total", "Replications that a worker has begun.", "worker"),
			prometheus.CounterValue, worker.NumberReplications},
		{desc("worker_pending_events", "Events and wakeups that wait to be handled.", "worker"),
			prometheus.GaugeValue, worker.NumberPending},
		{desc("worker_lent_blocks", "Blocks of a worker's pool that no receiver has given back.", "worker"),
			prometheus.GaugeValue, worker.NumberBlocks},
	}

	upDesc    = desc("run_up", "Whether the run shows anything: 1, or 0 while it begins or ends.")
	buildDesc = desc("build_info", "The program of the run.", "version", "go_version")
	stateDesc = desc("worker_state_seconds_total", "Seconds that a worker has spent so, estimated from samples. "+
		"It is parked while it waits, too.", "worker", "state")
	cpuDesc    = desc("worker_cpu_seconds_total", "Processor time of a worker's process.", "worker")
	memoryDesc = desc("process_private_bytes", "Memory that a process of the run has for itself.", "process")
	heldDesc   = desc("lane_held_bytes", "Bytes in the ring of a lane.", "from", "to")
	roomDesc   = desc("lane_capacity_bytes", "Bytes that the ring of a lane may hold.", "from", "to")
	movedDesc  = desc("lane_bytes_total", "Bytes that were put into a lane since the first look.", "from", "to")
	lanesDesc  = desc("run_lanes", "Lanes of the run; with more than 256 none has metrics of its own.")
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for i := range numbers {
		to <- numbers[i].desc
	}
	for _, d := range []*prometheus.Desc{upDesc, buildDesc, stateDesc, cpuDesc, memoryDesc, heldDesc, roomDesc,
		movedDesc, lanesDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put := func(d *prometheus.Desc, kind prometheus.ValueType, x float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, x, labels...)
	}
	put(buildDesc, prometheus.GaugeValue, 1, m.version, runtime.Version())
	if m.view == nil {
		put(upDesc, prometheus.GaugeValue, 0)
		return
	}
	put(upDesc, prometheus.GaugeValue, 1)
	for i := range m.view.Workers {
		w := &m.view.Workers[i]
		name := strconv.Itoa(w.Index)
		for _, n := range numbers {
			put(n.desc, n.kind, w.Number(n.of), name)
		}
		put(cpuDesc, prometheus.CounterValue, w.CPUSeconds, name)
		if bytes, ok := m.memory[w.PID]; ok {
			put(memoryDesc, prometheus.GaugeValue, bytes, "worker-"+name)
		}
	}
	if bytes, ok := m.memory[m.pid]; ok {
		put(memoryDesc, prometheus.GaugeValue, bytes, "launcher")
	}
	for of, seconds := range m.seconds {
		put(stateDesc, prometheus.CounterValue, seconds, strconv.Itoa(of.worker), of.state)
	}
	put(lanesDesc, prometheus.GaugeValue, float64(len(m.view.Lanes)+m.view.ManyLanes))
	if len(m.view.Lanes) > lanesMax {
		return
	}
	for _, l := range m.view.Lanes {
		from, dest := strconv.Itoa(l.From), strconv.Itoa(l.To)
		put(heldDesc, prometheus.GaugeValue, float64(l.Held), from, dest)
		put(roomDesc, prometheus.GaugeValue, float64(l.Capacity), from, dest)
		put(movedDesc, prometheus.CounterValue, m.moved[[2]int{l.From, l.To}], from, dest)
	}
}

// handler serves them at /metrics, and profiles at /debug/pprof/.
func (m *metrics) handler() (http.Handler, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.Handle("/debug/pprof/", &profiles{m})
	return mux, nil
}
