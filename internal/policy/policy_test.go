// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"strings"
)

// layers is the import policy, a line for each package: its folder from the module's root, ':' and the packages of the
// module that it imports. The line goes on in the next one where that begins with a tab. An edge that the package
// doesn't use is taken out; a new one needs a reason in the commit that adds it; docs/ARCHITECTURE.md draws the layers.
// Tests may import internal packages too, and packages that don't import theirs.
const layers = `
# Ground floor: knows nobody.
internal/invariants:
internal/race:
internal/interleave:
internal/leaktest:
internal/alloctest:
internal/pty:
internal/fullscreen: internal/printable
internal/ci:
internal/aligned:
internal/chart:
internal/speedup:
internal/script:
internal/infile:
internal/printable:
internal/heap:
internal/circuit:
internal/nearest:
internal/seed:
internal/setting:
internal/cputime:
internal/wire:
internal/wire/wiretest: internal/wire
internal/spans: internal/wire
internal/perfetto: internal/spans
state: internal/wire
shard:
graph:
graph/frame: graph
graph/frame/parquetfile:
graph/sqldb: graph
internal/plain:
internal/hazard: internal/infile
envelope:
external:
external/command: external
external/httpx: external

# Memory. ring works on a byte slice and doesn't map, sleep or know envelopes, so that
# it can be tested on the heap, where the race detector sees it. shm knows no records.
shm: internal/infile internal/invariants internal/interleave internal/printable
ring: internal/invariants internal/interleave internal/race internal/aligned
internal/counters: internal/printable
internal/idle: router internal/interleave

# Between machines: frames over any connection. Package bridge puts lanes into them.
internal/session: internal/invariants internal/phi
internal/session/pipetest:
internal/certs: internal/infile
internal/bridge/stream: internal/certs internal/session
internal/bridge: egress envelope internal/idle internal/lane internal/session ring shm
internal/bridge/offer: internal/bridge/stream internal/wire
internal/bridge/byname: internal/bridge/stream internal/session ipc
internal/bridge/relay: internal/child internal/machine internal/outfile internal/session internal/worker
	internal/workerproc shm

# The metadata store: knows nothing of simulation.
metastore:
metastore/etcd: metastore internal/circuit
metastore/dial: metastore metastore/etcd metastore/zk internal/infile
metastore/mem: metastore
metastore/storetest: internal/forward metastore
metastore/zk: internal/certs internal/circuit metastore
cluster: metastore internal/procfs
fleet: cluster internal/circuit internal/heap internal/nearest internal/setting internal/table internal/until metastore
	model/measure
fleet/agent: cluster fleet fleet/executor internal/circuit internal/table
fleet/door: fleet metastore
fleet/doorway: fleet internal/certs internal/circuit internal/infile internal/webserver metastore
fleet/executor: fleet internal/table
fleet/executor/local: fleet fleet/executor internal/infile internal/procfs internal/until
fleet/executor/remote: fleet fleet/executor fleet/executor/local internal/circuit internal/infile internal/table
fleet/executor/executortest: fleet fleet/executor internal/launch/launchtest

# The commands of a group.
internal/groupcall: app cluster fleet fleet/doorway metastore metastore/dial
experiments: app cluster fleet fleet/door fleet/doorway
	internal/checkpoint internal/checkpoint/s3 internal/checkpoint/storeblobs
	internal/groupcall internal/infile internal/outfile internal/submission internal/sweep internal/table
	metastore metastore/dial scenario
group: app cluster experiments fleet fleet/agent fleet/doorway fleet/executor fleet/executor/local fleet/executor/remote
	internal/groupcall
	internal/bridge/byname internal/bridge/offer internal/bridge/relay internal/bridge/stream
	internal/certs internal/checkpoint/blobproc internal/checkpoint/s3
	internal/checkpoint/storeblobs internal/child internal/infile
	internal/machinefile internal/session internal/site internal/table
	internal/workerproc ipc metastore metastore/dial scenario
group/beside: app internal/checkpoint/blobproc internal/child internal/graphproc

# Transport: moves bytes and knows nothing of simulation.
internal/lane: ring internal/interleave internal/race internal/aligned
egress: router envelope ring shm internal/lane
ingress: router envelope ring shm internal/lane
router: envelope
ipc: envelope ring shm internal/lane egress ingress internal/invariants internal/printable
internal/ipctest: internal/seed ipc shm
internal/linktest: envelope internal/lane router internal/invariants

# Simulation: orders events and knows nothing of memory, clocks or networks.
node: internal/aligned internal/heap envelope internal/invariants state
internal/calls:
internal/trace: internal/heap node

# What a scenario file means. Models know node's interface and no transport.
internal/graphdata: internal/wire
scenario: external node internal/graphdata internal/infile internal/nearest internal/printable internal/setting
internal/gml: internal/printable scenario
internal/table:
internal/jsonstream:
model/measure: state
internal/until: model/measure
model/timeline:
model/overview: internal/table model/measure scenario
internal/overviewtest: model/overview scenario
internal/helptest: app
model/modeltest: external internal/invariants node scenario envelope
model/phold: model/measure node scenario state model/overview internal/table
model/devstone: model/measure internal/wire node scenario state model/overview internal/table
model/queueing: internal/heap model/overview internal/wire node scenario state model/measure internal/table
	internal/invariants
model/supply: internal/heap model/overview internal/wire node scenario sim/dist state model/measure internal/table
model/service: internal/heap internal/jsonstream model/overview internal/wire node scenario state
	internal/invariants internal/table
	model/measure model/timeline
model/network: internal/heap model/overview internal/wire internal/gml node scenario state model/measure
	model/timeline internal/table
	internal/invariants

# The front door for models of one's own.
sim/dist: scenario state
sim: app external group/beside internal/invariants internal/plain internal/table model/measure model/overview node
	scenario sim/dist state
sim/simtest: app internal/infile internal/workerproc model/modeltest scenario sim

# Which worker hosts which node: graphs, nothing else.
internal/partition: internal/heap node

# The hall: both wings meet in worker and nowhere else.
internal/worker: external internal/answers internal/calls internal/checkpoint internal/outfile internal/spans
	internal/wire envelope shm internal/lane internal/counters internal/idle egress ingress ring router
	node internal/trace scenario internal/invariants internal/cputime
internal/procfs:
internal/workerproc: internal/procfs shm
internal/outfile:
internal/parquetout:
internal/drawing: scenario
internal/report: internal/drawing model/overview scenario
internal/outdir: internal/infile internal/outfile internal/parquetout internal/procfs
internal/checkpoint: internal/outfile
internal/answers: internal/checkpoint internal/outfile
internal/checkpoint/checkpointtest: internal/checkpoint
internal/checkpoint/nodediff: internal/checkpoint state
internal/checkpoint/s3: internal/checkpoint
internal/checkpoint/storeblobs: internal/checkpoint metastore
internal/checkpoint/blobproc: internal/checkpoint internal/outfile internal/wire internal/workerproc
internal/submission: internal/infile
internal/forward:
internal/phi:
internal/machinefile: internal/infile scenario
internal/storeserver: internal/forward internal/infile internal/procfs
internal/memorygroup: internal/infile
internal/newmodule:
internal/inspect: internal/counters internal/lane internal/procfs internal/worker internal/workerproc node shm
internal/latency: internal/lane internal/worker shm
internal/tracefile: internal/outfile internal/trace node
internal/placement: internal/infile node scenario
internal/machine: internal/inspect internal/lane internal/selfprofile internal/wire internal/worker
	internal/workerproc ring scenario shm
internal/child: internal/inspect internal/lane internal/machine internal/wire internal/worker internal/workerproc ring
	shm
internal/site: internal/bridge internal/bridge/relay internal/child internal/machine internal/procfs internal/session
	internal/worker internal/workerproc shm
internal/child/childtest: internal/bridge/relay internal/child internal/session internal/session/pipetest internal/site
	internal/worker internal/workerproc
internal/launch: external internal/answers internal/calls internal/checkpoint internal/checkpoint/nodediff
	internal/child internal/graphdata internal/lane internal/machine internal/outfile
	internal/partition
	internal/perfetto internal/placement internal/printable internal/procfs internal/spans internal/trace
	internal/tracefile internal/worker internal/workerproc node scenario shard shm
internal/launch/launchtest: external node scenario shard state
internal/sweep: internal/setting scenario

# The doors.
app: internal/answers internal/calls internal/checkpoint internal/drawing
	internal/checkpoint/blobproc internal/checkpoint/nodediff internal/child internal/graphdata internal/graphproc
	internal/speedup internal/fullscreen internal/hazard
	internal/infile internal/tracefile
	internal/inspect internal/latency internal/launch internal/machine internal/newmodule internal/outdir
	internal/report internal/submission
	internal/outfile
	internal/partition internal/placement internal/printable internal/sweep internal/table internal/trace
	internal/selfprofile internal/until internal/viewproc internal/worker internal/workerproc model/measure
	model/overview
	node ring scenario
internal/graphfile: graph graph/frame/parquetfile graph/sqldb internal/gml internal/infile internal/outfile
	internal/printable
internal/graphcmd: app graph graph/sqldb internal/graphfile internal/printable
internal/graphproc: internal/graphdata internal/wire internal/workerproc
internal/viewproc: internal/workerproc
internal/selfprofile:
internal/webserver:
internal/viewrun: app internal/inspect internal/outdir internal/procfs internal/selfprofile internal/viewproc
	internal/webserver internal/worker
internal/graphread: app graph graph/sqldb internal/graphdata internal/graphproc
cmd/disco-graph: app internal/graphcmd internal/graphread
cmd/disco-group: app group
internal/view: app internal/infile internal/outdir internal/webserver
cmd/disco-view: app internal/view internal/viewrun
cmd/disco-run: app examples group/beside scenario model/service model/network model/phold model/devstone model/queueing
	model/supply
cmd/disco-bench: perf/bench perf/machines perf/peers perf/saving
internal/policy:
internal/docs:
internal/agents: internal/forward internal/infile
internal/agents/agentstest: app group internal/workerproc model/phold
internal/demo: internal/agents internal/forward internal/storeserver
internal/tiny: app internal/launch/launchtest
internal/faulty: node scenario sim sim/dist state

# Examples and measurements.
examples:
examples/ipc: ipc
examples/planner: external external/command sim sim/dist
examples/simpy/bank: sim sim/dist
examples/simpy/carwash: sim sim/dist
examples/simpy/latency: sim sim/dist
examples/simpy/movie: sim sim/dist
examples/simpy/pipes: sim sim/dist
examples/simpy/shop: sim sim/dist
examples/simpy/station: sim sim/dist
perf/bench: app egress envelope ingress internal/chart internal/cputime internal/infile internal/printable
	internal/table ipc ring shm
perf/chaos: internal/procfs internal/pty app internal/infile internal/inspect internal/invariants internal/launch
	internal/race
	internal/launch/launchtest internal/worker model/devstone model/network model/phold model/queueing
	model/service model/supply
perf/compare: internal/infile perf/bench
perf/gen: scenario
perf/graph: graph graph/frame graph/frame/parquetfile graph/sqldb internal/cputime internal/graphfile
	internal/storeserver
perf/machines: egress envelope ingress internal/agents internal/bridge internal/bridge/stream internal/chart
	internal/forward internal/infile internal/session perf/bench perf/peers shm
perf/peers: internal/certs perf/bench shm
perf/phold: model/phold node
perf/saving: internal/checkpoint internal/cputime internal/infile model/phold node perf/bench
perf/scale: app internal/chart internal/heap internal/infile internal/inspect internal/latency internal/launch
	internal/speedup internal/outfile internal/procfs internal/worker model/phold model/service node perf/phold scenario
perf/store: cluster internal/forward internal/storeserver metastore metastore/etcd metastore/zk
`

// ban is an import that only some packages may have.
type ban struct {
	imports  string   // the path; one that ends in / stands for all that begin with it, too
	packages []string // who may import it; each of them does
	reason   string
}

var bans = []ban{
	{"github.com/anishathalye/porcupine", []string{"metastore/storetest"}, "it checks histories of tests"},
	{"github.com/fxamacker/cbor/", []string{"metastore"}, "CBOR is a form of the metadata store's values"},
	{"golang.org/x/term", []string{"app", "internal/fullscreen"}, "only the command line knows of terminals"},
	{"google.golang.org/grpc/", []string{"internal/bridge/offer", "internal/bridge/stream", "metastore/etcd",
		"perf/peers"},
		"gRPC is how machines and etcd are reached, and something that disco is compared with"},
	{"github.com/go-zookeeper/", []string{"perf/store"}, "what metastore/zk is compared with"},
	{"go.etcd.io/etcd/", []string{"metastore/etcd", "perf/store"},
		"one engine of the store, which no simulation needs, and what it is compared with"},
	{"go.uber.org/zap/", []string{"metastore/etcd"}, "how etcd's client is kept from logging"},
	{"net", []string{"fleet/doorway", "graph/sqldb",
		"internal/bridge/offer", "internal/bridge/stream", "internal/forward",
		"internal/storeserver", "internal/viewrun", "ipc", "metastore/dial",
		"metastore/etcd", "metastore/zk", "internal/view", "internal/webserver", "perf/peers"},
		"only who joins processes, serves, or watches a server, opens sockets or reads addresses"},
	{"net/http", []string{"external/httpx", "fleet/doorway",
		"internal/checkpoint/s3", "internal/view", "internal/viewrun",
		"internal/webserver", "cmd/disco-view"},
		"object stores and doors are reached by it, and services that models ask"},
	{"github.com/prometheus/", []string{"internal/viewrun"}, "metrics are served by disco-view"},
	{"go.opentelemetry.io/", []string{"internal/viewrun"}, "spans are sent by disco-view"},
	{"github.com/minio/", []string{"internal/checkpoint/s3"},
		"one client of object stores, which no simulation needs"},
	{"math/rand", nil, "math/rand has a global generator: take a node's own stream (Simproc.Source)"},
	{"reflect", []string{"internal/hazard", "internal/plain", "internal/wire/wiretest", "metastore",
		"metastore/storetest", "sim"},
		"layouts and types are known when disco is compiled; those of models are read once, when a model is built, " +
			"and tests fill any of them"},
	{"log", nil, "disco reports by errors, counters and log/slog"},
	{"github.com/apache/arrow-go/", []string{"graph/frame", "graph/frame/parquetfile", "graph/sqldb",
		"internal/graphfile", "internal/graphread", "perf/graph"},
		"records are for people's own tools"},
	{"github.com/parquet-go/", []string{"graph/frame/parquetfile"}, "one reader and writer of Parquet files"},
	{"C", nil, "disco builds with Go alone"},
}

// pure packages may not see the world: their results depend on nothing but their inputs. node, envelope and ring
// start no goroutine either. A key that ends in / stands for all packages below it.
var pure = map[string][]string{
	"node":           {"time", "os", "net", "log/slog", "sync", "runtime", "go"},
	"envelope":       {"time", "os", "net", "log/slog", "sync", "go"},
	"ring":           {"time", "os", "net", "log/slog", "go"},
	"model/service":  {"time", "os", "net", "log/slog", "sync"},
	"model/phold":    {"time", "os", "net", "log/slog", "sync"},
	"model/devstone": {"time", "os", "net", "log/slog", "sync"},
	"model/queueing": {"time", "os", "net", "log/slog", "sync"},
	"model/supply":   {"time", "os", "net", "log/slog", "sync"},

	// All models: what a scenario refers to is attached to it (scenario.Kind).
	"model/":   {"time", "os", "io/fs", "net", "log/slog", module + "/internal/infile"},
	"sim/dist": {"time", "os", "io/fs", "net", "log/slog", module + "/internal/infile"},
}

// exceptions are the places that may break a rule, a line for each: the rule, the place (a file, or "file: function"),
// and the reason. One that excuses nothing any more fails the test.
const exceptions = `
wall clock | internal/cputime/cputime.go: Monotonic | the monotonic clock itself
wall clock | ipc/dial.go: introduce | a deadline that is long past on every clock
wall clock | internal/launch/postmortem.go: postMortem | the name of a file
wall clock | internal/launch/postmortem.go: postMortemText | the head of a text
wall clock | graph/sqldb/sqldb.go: scenarios | when a scenario was made, for people
wall clock | internal/graphcmd/show.go: String | when a scenario was made, for people
wall clock | internal/launch/saving.go: wall | when a checkpoint was made, for people
wall clock | internal/faulty/clock.go: clock | the fault that is to be found
wall clock | internal/faulty/later.go: later | the same, in a third replication
wall clock | perf/bench/fleet.go: prepare | no time's Format, but one of a job
wall clock | experiments/audit.go: sinceOf | a time that people write is one of the wall clock
wall clock | experiments/audit.go: row | when something was done, for people
wall clock | fleet/audit.go: idAt | the beginning of an id, for people: nothing is ordered by it
wall clock | fleet/audit.go: IsID | whether an id begins as idAt makes it
wall clock | perf/chaos/main.go: command | a seed, which is printed
wall clock | perf/scale/rows.go: newRow | the day of a row
wall clock | perf/peers/stream.go: listenUnix | a name that nobody else has
wall clock | cluster/join.go: Error | since when, for people on other machines
wall clock | cluster/join.go: create | since when, for people on other machines
wall clock | cluster/loop.go: write | since when, for people on other machines
wall clock | cluster/membership.go: setStatus | since when, for people on other machines
wall clock | internal/bridge/offer/server.go: clock | by how much the clocks of machines differ, for people
wall clock | internal/checkpoint/s3/lock.go: write | since when, for people who find a lock
wall clock | internal/certs/load.go: clock | dates of certificates, for people
wall clock | fleet/agent/server.go: Initialize | when an attempt began, for people
wall clock | fleet/executor/local/cache.go: prune | which file of a cache goes first; any order is right
limits | internal/infile/infile.go | this is the limit
limits | internal/script/script.go | files of tests
limits | internal/leaktest/halves.go | files of tests
limits | model/modeltest/invalid.go | files of tests
pure | model/modeltest/invalid.go | reads the bad files of the models' tests
wall clock | internal/view/files.go: tag | which version of a file it is
leaks | internal/leaktest | its tests call it themselves
`

// allowed parses layers.
func (t *tree) allowed() (packages map[string][]string, broken findings) {
	packages = map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(t.layers, "\n\t", " ")) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		pkg, list, ok := strings.Cut(line, ":")
		if _, twice := packages[pkg]; !ok || twice {
			broken.add(pkg, "layers: bad line, or the second for its package: %q", line)
			continue
		}
		packages[pkg] = strings.Fields(list)
	}
	return packages, broken
}

// checkLayers holds imports against layers, and layers against imports.
func checkLayers(t *tree) findings {
	allowed, broken := t.allowed()
	used := map[string]bool{} // "from to"
	for _, f := range t.files {
		list, known := allowed[f.pkg]
		if !known {
			broken.add(f.path, "%s: %s has no line in layers: add one, with a reason in the commit", f.path, f.pkg)
			continue
		}
		for p, pos := range imports(f) {
			to, ours := strings.CutPrefix(p, module+"/")
			if !ours || to == f.pkg {
				continue
			}
			if !f.test {
				used[f.pkg+" "+to] = true
			}
			back, exists := allowed[to]
			forTests := f.test && exists && (strings.HasPrefix(to, "internal/") || !slices.Contains(back, f.pkg))
			if !slices.Contains(list, to) && !forTests {
				broken.add(f.path, "%s: %s may not import %s: see layers in internal/policy", pos, f.pkg, to)
			}
		}
	}
	packages := t.packages()
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		if !packages[pkg] {
			broken.add(pkg, "layers: there is no package %s", pkg)
			continue
		}
		for _, to := range allowed[pkg] {
			switch {
			case !packages[to]:
				broken.add(pkg, "layers: %s may import %s, which doesn't exist", pkg, to)
			case !used[pkg+" "+to]:
				broken.add(pkg, "layers: %s may import %s, and doesn't: take the edge out", pkg, to)
			}
		}
	}
	return broken
}

// covers reports whether an import path is that of a ban, or below it where it ends in /.
func covers(ban, path string) bool {
	all, prefix := strings.CutSuffix(ban, "/")
	return path == all || prefix && strings.HasPrefix(path, ban)
}

// checkBans holds imports against bans. Tests may import what they like.
func checkBans(t *tree) (broken findings) {
	for _, b := range t.imports {
		used := map[string]bool{}
		for _, f := range t.files {
			if f.test {
				continue
			}
			for p, pos := range imports(f) {
				if !covers(b.imports, p) {
					continue
				}
				used[f.pkg] = true
				if !slices.Contains(b.packages, f.pkg) {
					broken.add(f.path, "%s: %s may not import %s: %s", pos, f.pkg, p, b.reason)
				}
			}
		}
		for _, pkg := range b.packages {
			if !used[pkg] {
				broken.add(pkg, "bans: %s may import %s, and doesn't, or doesn't exist", pkg, b.imports)
			}
		}
	}
	return broken
}
