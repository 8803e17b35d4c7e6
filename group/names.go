// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/bridge/byname"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/ipc"
	"github.com/urfave/cli/v2"
)

// namesName is what this program calls itself to join the names of package ipc with those of other machines.
const namesName = "names"

// namesReady is what such a process answers when its gateway is open; anything else is why it isn't.
const namesReady = "ready"

func namesFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "ipc",
			Usage: "with --listen: join the names of package ipc here with those of other machines"},
		&cli.StringFlag{Name: "ipc-dir", Usage: "`FOLDER` of these names; the user's own if not given"}}
}

func namesCommand() app.Command {
	return app.Command{
		Name: namesName, Hidden: true, Usage: "is what an agent starts with --ipc; no command for people",
		Description: "It gets connections from the agent that starts it.",
		Flags: append(securityFlags(), &cli.StringFlag{Name: "ipc-dir", Usage: "as of agent"},
			&cli.StringFlag{Name: "group", Usage: "as of agent"}),
		Run: runNames,
	}
}

// runNames is the process, until its agent closes its end.
func runNames(c *app.Call) error {
	files, control, err := workerproc.Inherit()
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("found %d descriptors, want 1", len(files))
	}
	if err != nil {
		return app.Usage("an agent starts this: `agent --listen HOST:PORT --ipc` (%v)", err)
	}
	defer control.Close()
	security, err := securityOf(c)
	if err != nil {
		return err
	}
	s, err := byname.Serve(byname.Config{Names: ipc.ListenConfig{Dir: c.String("ipc-dir")}, Cluster: c.String("group"),
		Security: security, Connections: files[0], Report: func(err error) { fmt.Fprintln(c.Stderr, err) }})
	if err != nil {
		_, _ = io.WriteString(control, strings.ReplaceAll(err.Error(), "\n", ": ")) // the agent says it
		return nil
	}
	_, err = io.WriteString(control, namesReady+"\n")
	_, _ = io.Copy(io.Discard, control) // ends with the agent's end
	return errors.Join(err, s.Close())
}

// names is the process beside an agent.
type names struct {
	process *workerproc.Process
	way     io.Closer
	output  *workerproc.Output
	ended   chan struct{}
}

// startNames starts it, and returns when its gateway is open.
func (h *hosting) startNames(dir string) error {
	way, theirs, err := stream.Way()
	if err != nil {
		return err
	}
	defer theirs.Close()
	args := []string{namesName, "--group", h.cfg.agent.Cluster, "--ipc-dir", dir}
	if h.cfg.tlsDir != "" {
		args = append(args, "--tls-dir", h.cfg.tlsDir)
	}
	for range h.cfg.insecure {
		args = append(args, "--insecure")
	}
	n := &names{way: way, output: workerproc.NewOutput("names of ipc", h.cfg.log), ended: make(chan struct{})}
	n.process, err = workerproc.New(workerproc.Config{Executable: ownFile, Title: os.Args[0],
		Name: "names of ipc", Args: args,
		Handed: []*os.File{theirs}, Output: n.output})
	if err == nil {
		err = h.starter.Start(n.process)
	}
	if err != nil {
		return errors.Join(err, way.Close())
	}
	h.names = n
	go n.follow(h)
	if err := h.port.Add(byname.Run, way); err != nil {
		return err
	}
	return n.ready()
}

// ready waits until the process says how its beginning went.
func (n *names) ready() error {
	if err := n.process.Control.SetReadDeadline(time.Now().Add(namesLimit)); err != nil {
		return err
	}
	text := make([]byte, 1<<10)
	length, err := n.process.Control.Read(text)
	switch said := strings.TrimSpace(string(text[:length])); {
	case said == namesReady:
		return nil
	case length > 0:
		return app.Usage("--ipc: %s: --ipc-dir FOLDER, or no --ipc, where another agent has these names", said)
	default:
		return fmt.Errorf("--ipc: the process of the names has ended, or doesn't answer: %w", err)
	}
}

// namesLimit is how long the process may take to begin.
const namesLimit = 10 * time.Second

// follow waits for the process's end, which is an error before the agent's.
func (n *names) follow(h *hosting) {
	exit := n.process.Wait()
	n.output.Flush()
	h.port.Remove(byname.Run)
	h.mu.Lock()
	closing := h.closing
	h.mu.Unlock()
	if !closing || !exit.OK {
		h.report(fmt.Errorf("the process of the names has ended: %s: nothing is passed on any more", exit.Text))
	}
	close(n.ended)
}

// close ends the process: in order, if it does that in time.
func (n *names) close() error {
	killer := time.AfterFunc(endLimit, n.process.Kill)
	defer killer.Stop()
	err := n.process.Control.Close()
	<-n.ended
	return errors.Join(err, n.way.Close())
}
