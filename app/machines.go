// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/urfave/cli/v2"
)

// The values of --bridge-bytes.
const (
	bridgeBytesLeast = 1 << 20
	bridgeBytesMost  = 1 << 30
)

// peerTimeoutLeast is the least --peer-timeout: half of it may pass between two signs of life.
const peerTimeoutLeast = 500 * time.Millisecond

// timeoutMost is the most of each of these times, as machines take it.
const timeoutMost = 24 * time.Hour

// machineFlags are the flags of runs over several machines, most of which are those of the process that joins them.
func machineFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupMachines, "machines", "this one", "`FILE` that lists the machines on which the workers run; "+
			"their agents start them"),
		textFlag(groupMachines, "store", "none", "`URL` of the metadata store whose members are the machines, in "+
			"place of --machines"),
		textFlag(groupMachines, "group", "disco", "`NAME` of the machines' group"),
		textFlag(groupMachines, "labels", "all machines", "only machines that have all `LABELS`, KEY=VALUE with "+
			"commas between"),
		textFlag(groupMachines, "name", "the file's, and a number", "`NAME` of the run, which agents show; no two "+
			"runs have the same"),
		textFlag(groupMachines, "tls-dir", "none", "`FOLDER` that `certs issue` made for this machine"),
		&cli.BoolFlag{Category: groupMachines, Name: "insecure", Count: new(int), DisableDefaultText: true,
			Usage: "no certificates, on loopback addresses; given twice, anywhere"},
		textFlag(groupMachines, "connect-timeout", "5s", "`TIME` for each step until all machines are joined"),
		textFlag(groupMachines, "peer-timeout", "3s", "`TIME` of silence after which a machine counts as cut off"),
		textFlag(groupMachines, "reconnect-window", "10s", "`TIME` in which a machine that is cut off may come "+
			"back; then the run ends"),
		textFlag(groupMachines, "compress", "auto, on loopback addresses none", "`HOW` what passes between "+
			"machines is compressed: none, s2, zstd, or auto, as measuring shows to be faster"),
		textFlag(groupMachines, "bridge-bytes", bytesText(machine.WindowBytesDefault), "`BYTES` of a machine for "+
			"events that are on their way from others"),
		textFlag(groupMachines, "store-ca", "none", "`FILE` of the certificate that signs the store's servers' ones"),
		textFlag(groupMachines, "store-cert", "none", "`FILE` of this client's certificate for the store"),
		textFlag(groupMachines, "store-key", "none", "`FILE` of its key"),
		textFlag(groupMachines, "store-password-file", "none", "`FILE` with the password of the URL's user; or "+
			"DISCO_STORE_PASSWORD"),
		textFlag(groupMachines, "store-timeout", "10s", "`TIME` to wait for the store"),
	}
}

// elsewhere is a run whose workers are on machines that agents have.
type elsewhere struct {
	executable string   // that joins the machines
	args       []string // of it
	name       string   // of the run
	workers    int      // asked for; 0: one for each slot
	lost       []string // flags for machines without which the run goes on
}

// elsewhere reads the flags of a run of a file over several machines, with so many workers if that was asked for; nil:
// it is on this one.
func (v *values) elsewhere(p *program, file string, workers int) *elsewhere {
	file, c := filepath.Base(file), v.c
	list, store := v.path("machines"), v.text("store", "the URL of a store")
	if list == "" && store == "" {
		for _, f := range machineFlags() {
			if name := f.Names()[0]; c.IsSet(name) && name != "machines" && name != "store" {
				v.errs = append(v.errs, usage("--%s has no meaning without --machines FILE, or --store URL", name))
			}
		}
		return nil
	}
	if list != "" && store != "" {
		v.errs = append(v.errs, usage("found --machines and --store, want one list of machines"))
	}
	e := &elsewhere{name: v.text("name", "a name"), args: []string{fmt.Sprintf("--program=/proc/%d/exe", os.Getpid())}}
	if e.name == "" {
		e.name = fmt.Sprintf("%s-%04x", strings.TrimSuffix(file, filepath.Ext(file)), rand.Uint32N(1<<16))
	}
	if c.IsSet("workers") {
		e.workers = workers
	}
	v.limit("connect-timeout", time.Millisecond)
	v.limit("peer-timeout", peerTimeoutLeast)
	v.limit("reconnect-window", time.Millisecond)
	v.limit("store-timeout", time.Millisecond)
	v.word("compress", "none", "s2", "zstd", "auto")
	for _, f := range machineFlags() {
		switch name := f.Names()[0]; {
		case !c.IsSet(name), name == "name", name == "bridge-bytes":
		case name == "insecure":
			e.args = append(e.args, slices.Repeat([]string{"--insecure"}, c.Count(name))...)
		default:
			e.args = append(e.args, fmt.Sprintf("--%s=%s", name, v.text(name, "a value")))
		}
	}
	var err error
	if e.executable, err = p.joiner(); err != nil {
		v.errs = append(v.errs, usage("--machines: %v", err))
	}
	return e
}

// limit checks a time that something may take at most.
func (v *values) limit(flag string, least time.Duration) {
	if err := checkLimit(flag, v.duration(flag, least), least); err != nil {
		v.errs = append(v.errs, err)
	}
}

func checkLimit(flag string, d, least time.Duration) error {
	if d >= least && d <= timeoutMost {
		return nil
	}
	return usage("--%s: found %v, want %v to %v", flag, d, least, timeoutMost)
}

// CheckConnectTimeout is an error unless --connect-timeout has a time that a run over machines takes.
func CheckConnectTimeout(d time.Duration) error {
	return checkLimit("connect-timeout", d, time.Millisecond)
}

// joiner is the program that joins machines: one of the further commands.
func (p *program) joiner() (path string, err error) { return p.beside(child.Command, "join machines") }

// beside is the program that has one of the further commands, to be started with it.
func (p *program) beside(command, what string) (path string, err error) {
	at := slices.IndexFunc(p.further, func(c Command) bool { return c.Name == command })
	switch {
	case at < 0:
		return "", fmt.Errorf("this program can't %s: want beside.Commands() in its main (app.MainWith), or use "+
			"disco-run", what)
	case p.further[at].Program == "":
		return workerproc.Executable()
	}
	if path, err = workerproc.Beside(p.further[at].Program); err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", missing(path, err)
	}
	return path, nil
}

// join joins the machines of all runs of the command, if it has any, until end is called.
func (o *order) join(screen *screen) (end func(), err error) {
	e, cfg := o.elsewhere, &o.config
	if e == nil {
		return func() {}, nil
	}
	screen.joined.Store(true)
	process, err := e.start(screen, cfg.Stop, e.workers)
	if refused := (*child.RefusedError)(nil); errors.As(err, &refused) {
		text := err.Error()
		if strings.HasPrefix(text, "machines: ") { // about the file itself
			text = "--" + text
		}
		return nil, &usageError{text, errAway}
	} else if errors.Is(err, errInterrupted) {
		return nil, err
	} else if err != nil {
		return nil, &usageError{fmt.Sprintf("the machines aren't joined, and keep nothing of the run: %s: %v",
			e.executable, err), errAway}
	}
	slots := 0
	for _, m := range process.Network().Machines {
		slots += m.Slots
	}
	cfg.Machines, cfg.Workers = process, cmp.Or(e.workers, min(slots, launch.WorkersMax))
	cfg.Rejoin = func(lost string, workers int) (*child.Process, error) {
		process.Close()
		if lost != "" {
			e.lost = append(e.lost, "--"+child.WithoutFlag+"="+lost)
		}
		next, err := e.start(screen, cfg.Stop, workers, append(e.lost, "--"+child.LeftFlag)...)
		if err == nil {
			process = next
		}
		return next, err
	}
	return func() { process.Close() }, nil
}

// start starts the process that joins the machines for a run of so many workers.
func (e *elsewhere) start(screen *screen, stop <-chan struct{}, workers int, more ...string) (*child.Process, error) {
	screen.doing("joining the machines")
	return child.Start(child.Config{Executable: e.executable, Args: slices.Concat(e.args, more), Workers: workers,
		Run: e.name, Log: workerproc.NewLineWriter(screen), Proceed: func() error {
			select {
			case <-stop:
				return fmt.Errorf("%w before anything was simulated, while the machines were being joined",
					errInterrupted)
			default:
				return nil
			}
		}})
}

// checkMachines refuses what doesn't go together with a run over several machines.
func (o *order) checkMachines() error {
	if o.elsewhere != nil && o.config.Transport == launch.TransportInproc {
		return usage("--transport: found %s with --machines, want %s: workers are processes there",
			launch.TransportInproc, launch.TransportShm)
	}
	return nil
}

// machineRow is a machine of a run, for JSON output.
type machineRow struct {
	Name       string `json:"name"`
	Slots      int    `json:"slots"` // that were reserved
	Processors int    `json:"processors"`
	Workers    []int  `json:"workers"` // that ran there
}

// machinesOf are the machines of a run; nil: it was on this one.
func machinesOf(l *launch.Launch) (rows []machineRow) {
	machines, of := l.Machines()
	for _, m := range machines {
		rows = append(rows, machineRow{Name: m.Name, Slots: m.Slots, Processors: m.Processors, Workers: []int{}})
	}
	for w, m := range of {
		rows[m].Workers = append(rows[m].Workers, w)
	}
	return rows
}
