// SPDX-License-Identifier: Apache-2.0

// Package childtest has a child for tests: it runs the workers of a run over machines on this one, without a network.
// It is hub, spokes and sites (packages relay and site) in one process, with sessions over connections in memory, which
// have what faults a test is about.
//
// Guarantee: nothing of a set is left when it is closed, or when the process ends.
//
//	func TestMain(m *testing.M) {
//		if child.IsChild() {
//			os.Exit(childtest.Main())
//		}
//		leaktest.Main(m)
//	}
//
//	p, err := child.Start(child.Config{Args: childtest.Options{Machines: 2}.Args(), …})
package childtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Options say what a child does.
type Options struct {
	Machines   int       // 0: one
	Slots      int       // of each; 0: as many as are needed for all machines to have workers
	Processors int       // of each; 0: those of this machine, shared out
	RoundTrip  []float64 // as child.Network has them; nil: 50 µs

	Refuses bool // every run
	Loses   bool // a machine, when a worker there ends badly
	Memory  int  // bytes that a set may take on a machine; 0: what there is

	Network Network
}

// Name is the name of the first machine; h2 and so on are the others'.
const Name = "h1"

// RefusesText is what a child says about a run that it refuses.
const RefusesText = "machine " + Name + " doesn't answer"

// LosesText is what it says of a machine that is lost.
const LosesText = Name + " is cut off"

// Args are the child's arguments.
func (o Options) Args() []string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // there are numbers and flags only
	}
	return []string{string(b)}
}

// Main is the whole of a process for which child.IsChild holds: its exit status. Workers are started from the program
// that it runs itself.
func Main() int {
	if err := serve(); err != nil {
		return 1
	}
	return 0
}

func serve() error {
	to, err := child.Inherit()
	if err != nil {
		return err
	}
	h := &host{Launcher: to}
	if last := os.Args[len(os.Args)-1]; last != child.Command {
		err = json.Unmarshal([]byte(last), &h.options)
	}
	if err != nil {
		return err
	}
	h.options.Machines = max(1, h.options.Machines)
	err = to.Serve(h)
	h.net.close()
	return err
}

// host is the child's host, and whom its hub reports to.
type host struct {
	*child.Launcher
	options  Options
	net      network
	machines sync.Map // of each set, by worker
}

// Machines implements child.Host.
func (h *host) Machines(hello child.Hello, _ <-chan struct{}) (child.Network, error) {
	o := &h.options
	if o.Refuses {
		return child.Network{}, child.Refuse(errors.New(RefusesText))
	}
	n := o.Machines
	known := child.Network{Silence: cmp.Or(o.Network.PeerTimeout, silence),
		RoundTrip: o.RoundTrip, SecondsPerByte: make([]float64, n*n)}
	if known.RoundTrip == nil {
		known.RoundTrip = make([]float64, n*n)
	}
	slots, processors := o.Slots, o.Processors
	if slots == 0 {
		slots = (hello.Workers + n - 1) / n
	}
	if n == 1 {
		slots = worker.WorkersMax
	}
	if processors == 0 {
		processors = max(1, runtime.GOMAXPROCS(0)/n)
	}
	for m := range n {
		known.Machines = append(known.Machines, child.Machine{Name: fmt.Sprintf("h%d", m+1), Slots: slots,
			Processors: processors})
		for other := range n {
			if m != other {
				known.SecondsPerByte[m*n+other] = 1e-9
				if o.RoundTrip == nil {
					known.RoundTrip[m*n+other] = 50e-6
				}
			}
		}
	}
	return known, h.net.open(known.Machines, o, h)
}

// Keep implements child.Host: there are no slots.
func (h *host) Keep([]int) {}

// End implements child.Host: nothing is left to be said.
func (h *host) End() {}

// Make implements child.Host.
func (h *host) Make(o child.Order) (child.Workers, string, error) {
	h.machines.Store(o.Set, o.Plan.Machine)
	return h.net.hub.Make(o)
}

// Exit implements relay.Launcher.
func (h *host) Exit(set, w int, exit workerproc.Exit, lanes []child.Lane) {
	if of, ok := h.machines.Load(set); ok && !exit.OK && h.options.Loses {
		h.Lost(int(of.([]int32)[w]), LosesText)
		return
	}
	h.Launcher.Exit(set, w, exit, lanes)
}
