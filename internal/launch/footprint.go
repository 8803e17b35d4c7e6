// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// What a run takes, in bytes: measured, with what the Go runtime adds (docs/running.md, "Memory of a run").
const (
	programBytes   = 8 << 20 // this program, which all processes share
	processBytes   = 2 << 20 // a process that has nothing yet
	structureBytes = 64      // of a simproc in a node.Structure and its placement, its node's name included
	flatBytes      = 28      // … where there is one simproc a node, and workers have blocks of them
	linkBytes      = 20      // of a link in them
	engineBytes    = 200     // of a simproc in a node.Engine
	outLinkBytes   = 16      // of a link there
	pendingBytes   = 36      // of an entry of its pending set
	passiveBytes   = 8       // of a simproc whose node isn't in memory, where a node has one and workers have blocks
	placedBytes    = 12      // … and what it takes beside that elsewhere
	residentFactor = 1.25    // by which garbage makes more of nodes in memory
	reportBytes    = 100     // of a simproc's report: in messages, and in the launcher
	gatheredBytes  = 12      // … where it is added up when it comes

	// loadedLeast is what is worth a garbage collection to be told from garbage.
	loadedLeast = 64 << 20
)

// footprint is what a run is expected to take of the machine's memory.
type footprint struct {
	nodes, simprocs, links float64
	model                  scenario.Memory // what the model knows itself; zero: nothing
	loaded                 float64         // what each worker has of the scenario
	packed                 float64         // what all of them share of it
	sets, workers          int             // of each set
	shared                 bool            // workers are processes
	away                   bool            // of other machines
	resident               float64         // what nodes may take of memory; 0: no bound
	gathered               bool            // reports are added up when they come
	blocks                 bool            // workers have blocks of nodes, as far as that is known
}

// newFootprint is that of a scenario which this process has read, and before which its heap had so many bytes. packs:
// workers get it packed, and don't read it again.
func newFootprint(cfg *Config, s scenario.Scenario, g *node.Graph, packs bool, before uint64) footprint {
	nodes := max(g.NodeCount, len(g.Nodes))
	sets, workers := cfg.teams(nodes)
	f := footprint{nodes: float64(nodes), simprocs: float64(nodes) * float64(len(g.Simprocs)),
		links: float64(len(g.Links)), sets: sets, workers: workers, shared: cfg.Transport == TransportShm,
		away: cfg.Machines != nil, blocks: inBlocks(cfg, workers, len(g.Links))}
	if m, ok := s.(scenario.Sizer); ok {
		f.model = m.Memory()
	}
	if f.resident = float64(cfg.Tuning.Resident); f.resident > 0 && cfg.Checkpoint == nil && cfg.Replay == nil {
		_, f.gathered = s.Accumulate().(scenario.Gatherer)
	}
	if packs && f.model.PackedBytes <= packedMax {
		f.loaded, f.packed = float64(f.model.WorkerBytes), float64(f.model.PackedBytes)
		return f
	}
	if now := heapBytes(before); now > before {
		f.loaded = float64(now - before)
	}
	return f
}

// inBlocks tells whether workers have blocks of nodes, as far as that is known beforehand.
func inBlocks(cfg *Config, workers, links int) bool {
	return workers == 1 || links == 0 && cfg.Pins == nil && cfg.Partition != partition.RoundRobin
}

// teams is how many sets of workers a run of so many nodes has, and how many workers each.
func (cfg *Config) teams(nodes int) (sets, workers int) {
	if cfg.Spread == SpreadReplications {
		return min(cfg.Workers, cfg.wanted()), 1
	}
	return 1, min(cfg.Workers, nodes)
}

// heapBytes is what is on this process's heap. Garbage counts unless the heap is larger than base by more than
// loadedLeast.
func heapBytes(base uint64) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(sample); sample[0].Value.Uint64() > base+loadedLeast {
		runtime.GC()
		metrics.Read(sample)
	}
	return sample[0].Value.Uint64()
}

// need is a part of what a run takes.
type need struct {
	what   string
	bytes  float64
	advice string
}

// needs lists the parts, but for what this process has taken already: before is whether it is still to make the
// structure. input is what every worker maps, if that is known; segments is lanes and pools of a set.
func (f *footprint) needs(before bool, input, segments int) []need {
	structure := f.simprocs*f.structureBytes() + f.links*linkBytes
	shared := float64(input)
	if f.shared && input == 0 {
		shared = structure
	}
	if before {
		shared += structure
	}
	sets, workers, processes := float64(f.sets), float64(f.sets*f.workers), 0.0
	switch {
	case f.away:
		workers = 0
	case f.shared:
		processes = workers
	}
	engines, pending := f.engines(), f.pending()
	if f.away {
		engines, pending = 0, 0
	}
	nodes := fmt.Sprintf("a scenario with fewer than %.0f nodes", f.nodes)
	less := nodes
	if f.resident == 0 {
		less += ", --resident where most of them are idle"
	}
	report := reportBytes
	if f.gathered {
		report = gatheredBytes
	}
	return []need{
		{"structure", shared + f.packed, nodes},
		{"nodes", sets * engines, less},
		{"pending events", sets * pending, fmt.Sprintf("fewer than %d pending events", f.model.Pending)},
		{"results", sets * (f.simprocs*float64(report) + f.nodes*float64(f.model.ResultBytes)), nodes},
		{"lanes and pools", sets * float64(segments), "fewer --workers, smaller --ring-bytes or --pool-bytes"},
		{"processes and what each reads", programBytes + processes*processBytes + workers*f.loaded, "fewer --workers"},
	}
}

// engines is what the nodes of a set take, those in memory and those that have left it (Tuning.Resident), and pending
// what is pending for them.
func (f *footprint) engines() float64 {
	links := f.links * outLinkBytes
	all := f.simprocs*engineBytes + links + f.nodes*float64(f.model.NodeBytes)
	if f.resident == 0 {
		return all
	}
	each := float64(passiveBytes)
	if !f.flat() {
		each += placedBytes
	}
	return min(all, f.simprocs*each+links+residentFactor*f.resident/float64(f.sets))
}

// flat tells whether where a simproc is follows from its number (node.Placed).
func (f *footprint) flat() bool { return f.simprocs == f.nodes && f.blocks }

func (f *footprint) structureBytes() float64 {
	if f.flat() {
		return flatBytes
	}
	return structureBytes
}

func (f *footprint) pending() float64 {
	return float64(f.model.Pending) * (pendingBytes + 1.5*float64(f.model.EventBytes))
}

// heaps is what each worker of a set takes beside segments, where it is a process on another machine: its share of
// what nodes take, by their number.
func (f *footprint) heaps(nodes []int) []float64 {
	bytes := make([]float64, len(nodes))
	for w, n := range nodes {
		bytes[w] = processBytes + f.loaded + (f.engines()+f.pending())*float64(n)/f.nodes
	}
	return bytes
}

// checkMemory refuses a run that needs more memory than there is for it. A system that is out of memory ends some
// process rather than refuse.
func (cfg *Config) checkMemory(needs []need) error {
	total := 0.0
	var parts []string
	for _, n := range needs {
		total += n.bytes
	}
	available, whose, refused := float64(cfg.Memory), "are allowed", badConfig
	if cfg.Memory == 0 {
		available, whose, refused = float64(shm.AvailableBytes()), "are available", scarce
	}
	if total <= available {
		return nil
	}
	for _, n := range needs {
		if n.bytes >= total/100 {
			parts = append(parts, fmt.Sprintf("%s %s", n.what, sizeText(n.bytes)))
		}
	}
	most := slices.MaxFunc(needs, func(a, b need) int { return cmp.Compare(a.bytes, b.bytes) })
	return refused("memory: the run takes about %s (%s), and %s %s: use %s, a machine or control group with more "+
		"memory, or --memory %.0fM to try it all the same", sizeText(total), strings.Join(parts, ", "),
		sizeText(available), whose, most.advice, math.Ceil(total/(1<<20)))
}

// ScarceError is that this machine has less memory left than the run is expected to take: it may go well on another
// one, or later. It unwraps to ErrConfig.
type ScarceError struct{ configError }

func scarce(format string, args ...any) error {
	return &ScarceError{configError{fmt.Errorf(format, args...)}}
}

// sizeText is a number of bytes for people.
func sizeText(bytes float64) string {
	switch {
	case bytes >= 999.5e6:
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	case bytes >= 9.995e6:
		return fmt.Sprintf("%.0f MB", bytes/1e6)
	case bytes >= 999.5e3:
		return fmt.Sprintf("%.1f MB", bytes/1e6)
	case bytes >= 999.5:
		return fmt.Sprintf("%.0f kB", bytes/1e3)
	}
	return fmt.Sprintf("%.0f bytes", bytes)
}
