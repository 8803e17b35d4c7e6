// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Hosts are machines of a test: network namespaces with an interface each, on switches between which they can be moved,
// so that a network is parted as by a cable that was pulled: nobody is told. All of it ends with this process.
//
// The namespaces are the kernel's own, and are set up by the commands ip and nsenter: netlink by hand would be longer
// than everything that is tested with it.
type Hosts struct {
	hosts []*exec.Cmd // processes that keep the namespaces
	stdin []io.Closer // whose end ends them
}

// hostTools are the programs that Hosts need.
var hostTools = []string{"ip", "nsenter", "cat"}

// OwnNetwork makes a command begin in a network namespace of its own. NewHosts is for such a process: its interfaces
// are nobody else's. ErrAbsent where this isn't possible or allowed here.
func OwnNetwork(cmd *exec.Cmd) error {
	for _, tool := range hostTools {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("storeserver: the command %s, for network namespaces, %w (Debian's iproute2 and "+
				"util-linux have it)", tool, ErrAbsent)
		}
	}
	probe := exec.Command("ip", "link", "add", "probe", "type", "bridge")
	for _, c := range []*exec.Cmd{probe, cmd} {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	}
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("storeserver: network namespaces aren't allowed here (%w: %s), so what needs them %w", err,
			strings.TrimSpace(string(out)), ErrAbsent)
	}
	return nil
}

// NewHosts makes n hosts on switch 0, on which this process is, too.
func NewHosts(n int) (*Hosts, error) {
	h := &Hosts{}
	if err := h.build(n); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Hosts) build(n int) error {
	for i := range n { // at most all of them are parted from one another
		if err := command("ip", "link", "add", switchName(i), "type", "bridge"); err != nil {
			return err
		}
		if err := command("ip", "link", "set", switchName(i), "up"); err != nil {
			return err
		}
	}
	for i := range n {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return fmt.Errorf("storeserver: %w", err)
		}
		h.hosts, h.stdin = append(h.hosts, cmd), append(h.stdin, stdin)
		pid, port := strconv.Itoa(cmd.Process.Pid), portName(i)
		in := h.Enter(i)
		err = errors.Join(command("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid),
			command("ip", "link", "set", port, "master", switchName(0), "up"),
			command(append(in, "ip", "addr", "add", h.Addr(i).String()+"/24", "dev", "eth0")...),
			command(append(in, "ip", "link", "set", "eth0", "up")...),
			command(append(in, "ip", "link", "set", "lo", "up")...))
		if err != nil {
			return err
		}
	}
	return errors.Join(command("ip", "link", "set", "lo", "up"),
		command("ip", "addr", "add", SwitchAddr+"/24", "dev", switchName(0)))
}

// SwitchAddr is the address of this process on switch 0.
const SwitchAddr = "10.77.0.254"

// Slow makes every cable delay what it carries, each way, and lose a share of the packets. The kernel needs netem for
// it.
func (h *Hosts) Slow(delay time.Duration, loss float64) error {
	for i := range h.hosts {
		netem := []string{"root", "netem", "delay", fmt.Sprintf("%dus", delay.Microseconds()), "loss",
			fmt.Sprintf("%g%%", 100*loss)}
		if err := command(append([]string{"tc", "qdisc", "add", "dev", portName(i)}, netem...)...); err != nil {
			return err
		}
		err := command(append(append(h.Enter(i), "tc", "qdisc", "add", "dev", "eth0"), netem...)...)
		if err != nil {
			return err
		}
	}
	return nil
}

func switchName(i int) string { return "switch" + strconv.Itoa(i) }
func portName(i int) string   { return "port" + strconv.Itoa(i) }

// command runs a command.
func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("storeserver: %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Addr is the address of a host.
func (h *Hosts) Addr(i int) net.IP { return net.IPv4(10, 77, 0, byte(i+1)) }

// Enter is what stands before a command that is to run on a host.
func (h *Hosts) Enter(i int) []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", h.hosts[i].Process.Pid), "--"}
}

// Split puts each host on a switch: those on one reach each other, and those on 0 this process. Split() heals all.
func (h *Hosts) Split(switches ...int) error {
	for i := range h.hosts {
		on := 0
		if i < len(switches) {
			on = switches[i]
		}
		if err := command("ip", "link", "set", portName(i), "master", switchName(on)); err != nil {
			return err
		}
	}
	return nil
}

// Unplug pulls a host's cable out, or puts it in again: the host sees that.
func (h *Hosts) Unplug(i int, out bool) error {
	return command("ip", "link", "set", portName(i), map[bool]string{true: "down", false: "up"}[out])
}

// Apart has some hosts on a switch not reach each other, and all others as before. Apart() heals it.
func (h *Hosts) Apart(hosts ...int) error {
	for i := range h.hosts {
		isolated := "off"
		if slices.Contains(hosts, i) {
			isolated = "on"
		}
		if err := command("ip", "link", "set", portName(i), "type", "bridge_slave", "isolated", isolated); err != nil {
			return err
		}
	}
	return nil
}

// Deaf has what a host sends to another one get lost, or undoes that: what the other one sends arrives.
func (h *Hosts) Deaf(i, to int, deaf bool) error {
	do := map[bool]string{true: "add", false: "del"}[deaf]
	return command(append(h.Enter(i), "ip", "route", do, "blackhole", h.Addr(to).String()+"/32")...)
}

// NewEtcd makes a server that isn't started yet, on a host, which wants those certificates.
func (h *Hosts) NewEtcd(i int, dir string, c *Certificates, flags ...string) (*Etcd, error) {
	flags = append([]string{"--listen", h.Addr(i).String() + ":2379", "--cert", c.Cert, "--key", c.Key, "--ca", c.CA},
		flags...)
	s, err := NewEtcd(dir, flags...)
	if err == nil {
		h.put(i, s.Process)
	}
	return s, err
}

// put has a server that wasn't started yet run on a host.
func (h *Hosts) put(i int, p *Process) { p.args = append(h.Enter(i), p.args...) }

// StartEtcds starts n servers on as many hosts, which want the certificate that it makes in dir.
func (h *Hosts) StartEtcds(ctx context.Context, dir string, n int) (*Etcds, error) {
	var addrs []net.IP
	for i := range n {
		addrs = append(addrs, h.Addr(i))
	}
	c, err := NewCertificates(dir, addrs...)
	if err != nil {
		return nil, err
	}
	z := &Etcds{}
	for i := range addrs {
		var join []string
		if i > 0 {
			join = []string{"--join", z.Servers[0].addr}
		}
		s, err := h.NewEtcd(i, filepath.Join(dir, strconv.Itoa(i+1)), c, join...)
		if err == nil {
			z.Servers = append(z.Servers, s)
			err = errors.Join(s.Start(), s.Ready(ctx))
		}
		if err != nil {
			z.Close()
			return nil, err
		}
	}
	return z, nil
}

// Close ends the hosts.
func (h *Hosts) Close() {
	for i, cmd := range h.hosts {
		h.stdin[i].Close()
		_ = cmd.Wait() // a signal may have ended it
	}
}
