// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/placement"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Transports between workers.
const (
	TransportShm    = "shm"    // every worker a process, lanes in shared memory
	TransportInproc = "inproc" // every worker a goroutine of this process, lanes on the heap
)

// What is spread over the workers.
const (
	SpreadNodes        = "nodes"        // every replication is simulated by all workers together
	SpreadReplications = "replications" // every worker simulates whole replications
)

// Limits of a run.
const (
	// WorkersMax bounds the workers of one machine: n workers have n(n-1) lanes, each
	// of them a segment of its own, so 64 workers have 4032 of them.
	WorkersMax = 64

	// ReplicationsMax bounds the repetitions of one run: each leaves a report of every
	// simproc in the launcher's memory.
	ReplicationsMax = 100_000
)

// processors is how many threads of this process can run at once: what the machine has, the
// process may use, and its control group has time for.
var processors = runtime.GOMAXPROCS(0)

// Config says what to run and how. Only File, Text, Attached, Set, Registry and Seed can
// change results, and Horizon and Replications, which say how much of them there is.
type Config struct {
	// File is the scenario's name in messages, and Text the file itself: every worker
	// reads it anew.
	File string
	Text []byte

	// Files keeps the files that the scenario refers to for other runs of the same command,
	// which then read the same bytes. Nil: they are read for this run alone.
	Files *scenario.Files

	// Attached are the files that the scenario refers to, where the caller has them; nil: they are read, by way of
	// Files.
	Attached []scenario.Attachment

	// Set puts other values into the file, the same in every worker.
	Set []scenario.Setting

	// Registry reads it. A worker process must have the same kinds: it is the same
	// executable, started again.
	Registry scenario.Registry

	// Workers is the number of processes, or goroutines, 1 to WorkersMax. More than
	// the scenario has nodes are not started. More workers than CPUs are slower, not
	// faster.
	Workers int

	// Seed is where all randomness comes from. Any number is as good as any other.
	Seed uint64

	// Replications is how often the experiment is repeated, each time with other
	// random numbers, 1 to ReplicationsMax.
	Replications int

	// Only are the replications that are simulated; nil: all. The outcome is about these alone: what a replication
	// comes to depends on its index, and not on which others are simulated.
	Only *Only

	// Horizon replaces the scenario's own end in simulated seconds; 0 keeps it.
	Horizon float64

	// Series has models record time series (scenario.Options).
	Series bool

	// Transport is TransportShm or TransportInproc; empty is the former.
	Transport string

	// Machines are the machines on which the workers run, as processes of the same program; nil: this one. It stays the
	// caller's, and is there for as long as the run is.
	Machines *child.Process

	// Rejoin joins the machines anew for at most so many workers, where RunRecovering goes back: without the one with
	// that name, which is lost ("": none is), and without others that are lost, too. It has ended Machines before. nil:
	// RunRecovering goes back on this machine only.
	Rejoin func(lost string, workers int) (*child.Process, error)

	// LastThere says that no other run of this process will be on Machines. What this one doesn't use of them is then
	// free for others when it begins.
	LastThere bool

	// BridgeBytes is how much the windows of all lanes to other machines, and from them, have together on each machine;
	// each has 16 KiB at least. 0: machine.WindowBytesDefault. It changes speed only.
	BridgeBytes int

	// Spread is what is dealt out to the workers: SpreadNodes, SpreadReplications, or
	// empty, which is the latter where every worker gets a replication, and no
	// placement of nodes was asked for. docs/ARCHITECTURE.md has the reasons.
	Spread string

	// Partition is the way in which nodes are dealt out; empty is partition.MinCut.
	Partition partition.Method

	// Processors is how many threads can run at once, 1 or more; 0 is as many as the machine lets
	// this process use, or as the machines have. Where workers are more, those that wait give their processor away at
	// once.
	Processors int

	// Pins puts nodes on workers by name; nil leaves all of them to Partition.
	Pins *placement.Pins

	// Memory is how many bytes a run may be expected to take; more is refused before anything
	// is started. 0: what the machine and this process's control groups have available.
	Memory int64

	// Tuning holds the knobs of the engine; they change speed only.
	Tuning worker.Tuning

	// Stall is how long a run may make no progress in simulated time before it reports what
	// every worker waits for; 0: never. EndStalled ends the run then, with ErrStalled.
	Stall      time.Duration
	EndStalled bool

	// Trace is the file for the whole trace, in total order; empty for none. It costs
	// half the speed and some 50 bytes of disk an event while the run lasts. A run that
	// is interrupted before anything was simulated leaves the file as it is.
	Trace string

	// Records, when not nil, has what handlers record kept (scenario.Recorder).
	Records *Records

	// Journal, beside Trace, makes the trace a journal; nil: it is a plain one.
	Journal *Journal

	// Profiles is a directory that gets a CPU profile of every worker; empty for none.
	Profiles string

	// Perfetto is the file that gets what each worker was at, and when, for Perfetto; empty for none.
	Perfetto string

	// CrashDir is the folder for the post-mortem of a run that a worker's death or a
	// deadlock ended (CrashName begins its name, the error says the rest); empty for none.
	CrashDir string

	// Legs divides each replication into legs; nil: each is one.
	Legs *Legs
	// Checkpoint is which checkpoints are made; nil: none. Legs is nil then.
	Checkpoint *Checkpoint

	// Rebalance is how nodes move between workers while the run goes on; nil: they stay.
	Rebalance *Rebalance

	// Resume is what the run begins with; nil: epoch 0.
	Resume *Resume

	// Answers keeps what the outside world answers handlers, and has what it has answered before. nil: Run makes one
	// where there are checkpoints, and RunRecovering.
	Answers *answers.Store
	// ExternalSync has each answer outlive a power failure before its handler gets it.
	ExternalSync bool

	// Each is called with the reports of each replication, in their order, before they are added up; nil for none. An
	// error ends the run.
	Each func(scenario.Replication) error

	// SoFar has results made while the run goes on; nil: at its end alone.
	SoFar *SoFar

	// Enough is asked when a replication has reached its end and was added up, in their order, whether it is the last
	// that is wanted; nil: all are. What others have simulated meanwhile is no part of the outcome, and those that are
	// under way are ended: so the outcome is that of a run of so many Replications.
	Enough func() bool

	// Replay has the run compared with a recorded one; Checkpoint is then only used for that. nil: it isn't compared.
	Replay *Replay

	// Loading has the run only load checkpoints of Resume's Repo; Spread is SpreadNodes then. nil: it simulates.
	Loading *Loading

	// Stop ends the run early when it is closed, with the results so far. Ending the
	// context instead ends it at once, without any.
	Stop <-chan struct{}

	// Progress is called about five times a second while a replication runs, by one
	// goroutine at a time; nil for none. It must return soon: workers are not watched
	// meanwhile.
	Progress func(Progress)

	// Phases is called at the end of each phase, and of each replication, by several goroutines at a time where
	// replications are spread over the workers; nil for none.
	Phases func(PhaseSpan)

	// Ready is called when the workers are ready to simulate their first replication, so that no handler can be
	// refused any more because it can't be saved; by several goroutines at once; nil for none.
	Ready func()

	// Doing is called when the run begins something that may take long, with a few words for
	// people such as "placing 1000000 nodes on 2 workers", and with none when events are handled
	// from now on, which Progress shows; by one goroutine at a time; nil for none. It must
	// return soon.
	Doing func(what string)

	// Stderr gets what workers write to their standard output and error, and remarks
	// such as fewer workers than asked for; nil for nowhere.
	Stderr io.Writer
}

// Only is some of a run's replications, by index: First to Last.
type Only struct{ First, Last int }

// span is which replications are simulated: first to beyond-1.
func (cfg *Config) span() (first, beyond int) {
	if cfg.Only != nil {
		return cfg.Only.First, cfg.Only.Last + 1
	}
	return 0, cfg.Replications
}

// wanted is how many replications are simulated.
func (cfg *Config) wanted() int {
	first, beyond := cfg.span()
	return beyond - first
}

// Records is where what handlers record goes.
type Records struct {
	// Path is the file that it is for, which has room beside it.
	Path string

	// Write gets it, in the order of replications, when all was simulated, and writes the file.
	Write func(ctx context.Context, all []RecordsOf) error
}

// RecordsOf is what handlers have recorded in a replication, which was simulated up to Reached.
type RecordsOf struct {
	Replication int
	Reached     float64
	Each        func(yield func(r *node.Recorded) error) error // in the total order
}

// Journal is a trace with the data of events and with what activations did, in the model's words.
type Journal struct {
	Node        string  // the only one, whose journal is there for a run that fails, too; "": all
	From, Until float64 // simulated seconds; Until 0: the whole run
	Fleeting    bool    // the memory of events is overwritten behind each call of a handler
	Sends       bool    // it has nothing but how many events the node has sent, behind each call
}

// selection is what of a run the journal has.
func (j *Journal) selection(g *node.Structure) (worker.Journal, error) {
	w := worker.Journal{On: true, Fleeting: j.Fleeting}
	w.Sends = j.Sends
	w.From, w.Until = j.From, cmp.Or(j.Until, math.MaxFloat64)
	w.End = node.SimprocID(g.NumSimprocs())
	if j.Node != "" {
		i, ok := g.IndexNodes()(j.Node)
		if !ok {
			return w, badConfig("print: found the node %q, which the scenario doesn't have", j.Node)
		}
		layers := len(g.Simprocs())
		w.First, w.End = node.SimprocID(i*layers), node.SimprocID((i+1)*layers)
		w.Eager = !j.Sends
	}
	return w, nil
}

// Progress is how far a run has come.
type Progress struct {
	Replication  int     // the first of those under way
	Now          float64 // simulated time that it has reached, seconds
	Horizon      float64
	Replications int           // asked for
	Done         int           // replications that have ended
	Share        float64       // of the whole run that is done, 0 to 1
	Events       uint64        // handled so far
	Elapsed      time.Duration // since the run began
	Simulated    float64       // seconds, of all replications together
	Waits        Waits
	Checkpoints  int // that are safe
}

// Waits is what the workers under way do at the moment, as their boards show it.
type Waits struct {
	Workers int // that were looked at
	Peers   int // of them wait for what others promise
	Lanes   int // for room in a lane
	Outside int // for an answer of the outside world
	On      int // the worker that most of those wait for; -1: none, or it isn't known
}

// validate checks what can be checked without the scenario. Its errors name fields
// in the words of the command line.
func (cfg *Config) validate() error {
	if cfg.Transport == "" {
		cfg.Transport = TransportShm
	}
	if cfg.Workers < 1 || cfg.Workers > WorkersMax {
		return badConfig("workers: found %d, want 1 to %d", cfg.Workers, WorkersMax)
	}
	if err := cfg.checkOnly(); err != nil {
		return err
	}
	if !(cfg.Horizon >= 0) || math.IsInf(cfg.Horizon, 1) {
		return badConfig("horizon: found %v, want a finite number of simulated seconds > 0", cfg.Horizon)
	}
	if cfg.Transport != TransportShm && cfg.Transport != TransportInproc {
		return badConfig("transport: found %q, want %s or %s", cfg.Transport, TransportShm, TransportInproc)
	}
	if err := cfg.checkMachines(); err != nil {
		return err
	}
	if cfg.Processors == 0 {
		cfg.Processors = processors
		if cfg.Machines != nil {
			cfg.Processors = 0
			for _, m := range cfg.Machines.Network().Machines {
				cfg.Processors += m.Processors
			}
		}
	}
	if cfg.Processors < 1 {
		return badConfig("processors: found %d, want 1 or more", cfg.Processors)
	}
	if cfg.BridgeBytes == 0 {
		cfg.BridgeBytes = machine.WindowBytesDefault
	}
	if cfg.BridgeBytes < 1 || cfg.BridgeBytes > math.MaxInt32 {
		return badConfig("bridge-bytes: found %d, want 1 to %d", cfg.BridgeBytes, math.MaxInt32)
	}
	if err := cfg.checkSpread(); err != nil {
		return err
	}
	if err := cmp.Or(cfg.checkCheckpoints(), cfg.checkRebalance()); err != nil {
		return err
	}
	if cfg.Stall < 0 {
		return badConfig("stall: found %v, want 0 (off) or more", cfg.Stall)
	}
	share := cfg.Tuning.PoolBytes == 0
	if err := cfg.Tuning.Validate(); err != nil {
		return &configError{err}
	}
	if cfg.Tuning.Resident > 0 && cfg.Machines == nil {
		if _, err := outfile.ScratchDir(); err != nil {
			return badConfig("resident: no place for nodes that leave memory: %w", err)
		}
	}
	if share {
		cfg.Tuning.SharePools(cfg.Workers)
	}
	if least := cfg.Tuning.PoolBytesLeast(); cfg.Tuning.PoolBytes < least {
		return badConfig("pool-bytes: found %d, want at least %d: two blocks for payloads above --inline-max, "+
			"%d bytes", cfg.Tuning.PoolBytes, least, cfg.Tuning.InlineMax)
	}
	return cfg.checkFiles()
}

// checkOnly refuses replications that there can't be.
func (cfg *Config) checkOnly() error {
	if cfg.Replications < 1 || cfg.Replications > ReplicationsMax {
		return badConfig("replications: found %d, want 1 to %d", cfg.Replications, ReplicationsMax)
	}
	if first, beyond := cfg.span(); first < 0 || first >= beyond || beyond > cfg.Replications {
		return badConfig("only: found %d-%d, want some of the replications 0 to %d", first, beyond-1,
			cfg.Replications-1)
	}
	return nil
}

// checkCheckpoints refuses what doesn't go with checkpoints.
func (cfg *Config) checkCheckpoints() error {
	if c := cfg.Checkpoint; c != nil && (c.Every < 0 || c.Wall < 0 || c.Keep < 1) {
		return badConfig("checkpoint: found one every %v simulated seconds and every %v, of which %d stay; want 0 or "+
			"more, and that 1 or more stay", c.Every, c.Wall, c.Keep)
	}
	if c := cfg.Checkpoint; c != nil && c.EndsOnly && (c.Every > 0 || c.Wall > 0 || len(c.At) > 0 || c.Now != nil) {
		return badConfig("checkpoint-ends: found it with times of checkpoints, want one of them")
	}
	if cfg.Checkpoint == nil && cfg.Resume == nil {
		return nil
	}
	switch {
	case cfg.Replay != nil:
		return nil
	case cfg.Journal != nil:
		return badConfig("checkpoint: found --print, want one of them")
	case cfg.Resume == nil:
		return nil
	case cfg.Trace != "" && !cfg.Resume.Repo.Run().Trace && cfg.Resume.Variant == 0:
		return badConfig("trace: the run was begun without --trace: what it handled before the checkpoint isn't known")
	case cfg.Records != nil && !cfg.Resume.Repo.Run().Records:
		return badConfig("records: the run was begun without --records: what was recorded before the checkpoint " +
			"isn't known")
	case cfg.Checkpoint != nil && cfg.Checkpoint.Repo != nil && cfg.Checkpoint.Repo != cfg.Resume.Repo &&
		(cfg.Checkpoint.Repo.Run().Trace || cfg.Checkpoint.Repo.Run().Records):
		return badConfig("trace: found checkpoints that go to another place than the one that the run goes on from: " +
			"trace and records stay there")
	}
	return nil
}

// checkSpread fills in what is spread, and how.
func (cfg *Config) checkSpread() error {
	placed := cfg.Pins != nil || cfg.Partition != ""
	switch {
	case cfg.Spread == "" && (placed || cfg.Workers == 1 || cfg.wanted() < cfg.Workers):
		cfg.Spread = SpreadNodes
	case cfg.Spread == "":
		cfg.Spread = SpreadReplications
	case cfg.Spread == SpreadReplications && placed:
		return badConfig("spread: found replications with a placement of nodes, want one of them: whole " +
			"replications have all nodes on one worker")
	case cfg.Spread != SpreadNodes && cfg.Spread != SpreadReplications:
		return badConfig("spread: found %q, want %s or %s", cfg.Spread, SpreadNodes, SpreadReplications)
	}
	if cfg.Partition == "" {
		cfg.Partition = partition.MinCut
	}
	if _, err := partition.ParseMethod(string(cfg.Partition)); err != nil {
		return badConfig("partition: found %q, want one of %q", cfg.Partition, partition.Methods())
	}
	return nil
}

// checkFiles sees that traces can be written.
func (cfg *Config) checkFiles() error {
	for _, f := range []struct{ flag, path string }{{"trace", cfg.Trace}, {"trace-perfetto", cfg.Perfetto}} {
		if f.path == "" {
			continue
		}
		if err := outfile.Check(f.path); err != nil {
			return badConfig("%s: %w", f.flag, err)
		}
	}
	return cfg.checkProfiles()
}

// checkProfiles makes the directory for profiles if need be and sees that files can
// be made in it.
func (cfg *Config) checkProfiles() error {
	if cfg.Profiles == "" {
		return nil
	}
	if err := os.MkdirAll(cfg.Profiles, 0o777); err != nil {
		return badConfig("cpuprofile: %w", outfile.Error(cfg.Profiles, err))
	}
	if err := outfile.Check(filepath.Join(cfg.Profiles, profileName(0))); err != nil {
		return badConfig("cpuprofile: %w", err)
	}
	return nil
}
