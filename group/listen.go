// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/urfave/cli/v2"
)

// securityFlags are those of every command that reaches other machines, or is reached.
func securityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "tls-dir", Usage: "`FOLDER` that `certs issue` made for this machine"},
		&cli.BoolFlag{Name: "insecure", Count: new(int),
			Usage: "no certificates, on loopback addresses; given twice, anywhere"},
	}
}

// securityOf is what these flags ask for.
func securityOf(c *app.Call) (*stream.Security, error) {
	s, err := stream.NewSecurity(c.String("tls-dir"), c.Count("insecure"))
	if err != nil {
		return nil, app.Usage("%v", err)
	}
	return s, nil
}

// checkListen holds the flags of an agent that takes runs against each other, before anything is opened.
func checkListen(c *app.Call) error {
	if !c.IsSet("listen") {
		for _, flag := range []string{"tls-dir", "insecure", "ipc", "ipc-dir"} {
			if c.IsSet(flag) {
				return app.Usage("--%s has no meaning without --listen", flag)
			}
		}
		return nil
	}
	if c.IsSet("ipc-dir") && !c.Bool("ipc") {
		return app.Usage("--ipc-dir has no meaning without --ipc")
	}
	address := c.String("listen")
	s, err := securityOf(c)
	if err != nil {
		return err
	}
	if err := s.CheckAddress(address); err != nil {
		return app.Usage("--listen: %v", err)
	}
	if slots := c.Int("slots"); c.IsSet("slots") && (slots < 1 || slots > offer.SlotsMax) {
		return app.Usage("--slots: found %d, want 1 to %d with --listen", slots, offer.SlotsMax)
	}
	host := address[:strings.LastIndexByte(address, ':')]
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if every := host == "" || err == nil && ip.IsUnspecified(); every && c.String("address") == "" &&
		groupcall.URL(c) != "" {
		return app.Usage("--listen: found %s, which is every address of this machine: want --address HOST:PORT, at "+
			"which others reach it", address)
	}
	_, err = groupcall.Group(c)
	return err
}

// listen opens the port of an agent that takes runs, which says so with announce.
func listen(c *app.Call, name string) (*listening, error) {
	f, programs, err := groupcall.OpenProgram(c)
	if err != nil {
		return nil, err
	}
	own, err := digest()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	slots := min(c.Int("slots"), offer.SlotsMax)
	h, err := newHost(hostConfig{listen: c.String("listen"), tlsDir: c.String("tls-dir"), insecure: c.Count("insecure"),
		program: f, log: workerproc.NewLineWriter(c.Stderr), title: c.Program,
		agent: offer.Agent{Disco: app.Version(), Cluster: c.String("group"), Name: name, Program: programs,
			Bridge: own, Slots: slots}})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l := &listening{h, f}
	if c.Bool("ipc") {
		if err := h.startNames(c.String("ipc-dir")); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	h.title = fmt.Sprintf("%s takes runs at %s, with %s, for %s %.4x", name, h.address(), table.Plural(slots, "slot"),
		filepath.Base(f.Name()), programs)
	return l, nil
}

// announce writes that the agent takes runs: nothing stands in the way of that any more. nil: it doesn't.
func (h *hosting) announce(c *app.Call) error {
	if h == nil {
		return nil
	}
	_, err := fmt.Fprintf(c.Stdout, "%s: %s\n", c.Program, h.title)
	return err
}

// listening is a host with what it was made from.
type listening struct {
	*hosting
	program *os.File
}

func (l *listening) close() error { return errors.Join(l.hosting.close(), l.program.Close()) }

// serveRuns is an agent that takes runs, and is no member of a group.
func serveRuns(ctx context.Context, c *app.Call, name string) error {
	h, err := listen(c, name)
	if err != nil {
		return err
	}
	if err := h.announce(c); err != nil {
		return errors.Join(err, h.close())
	}
	<-ctx.Done()
	if err := h.close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout, "%s: %s has ended\n", c.Program, name)
	return err
}

// measure is how this machine is now.
func measure() offer.Measured {
	m := offer.Measured{Processors: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		m.Load, _ = strconv.ParseFloat(load, 64) // 0, where the kernel has another form
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
				kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
				m.Memory = kib << 10
			}
		}
	}
	return m
}
