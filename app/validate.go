// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

func (p *program) validateCommand() *cli.Command {
	return p.withParameters(cli.Command{
		Name:  "validate",
		Usage: "tells whether a scenario file is good, or all that is wrong with it",
		Flags: validateFlags(),
	}, p.validate)
}

func validateFlags() []cli.Flag {
	return []cli.Flag{horizonFlag(), warmupFlag(), setFlag(), databaseFlag()}
}

// validate reads a scenario and describes it.
func (p *program) validate(c *cli.Context) error {
	path, err := p.oneFile(c.Args().Slice())
	if err != nil {
		return err
	}
	doc, err := p.read(path)
	if err != nil {
		return err
	}
	flags := &values{c: c}
	horizon := flags.seconds("horizon")
	if err := flags.err(); err != nil {
		return err
	}
	set, err := p.settings(c)
	if err != nil {
		return err
	}
	if err := p.checkSettings(c, doc, set); err != nil {
		return err
	}
	l, err := launch.Prepare(launch.Config{
		File: doc.File(), Text: doc.Text(), Set: set, Registry: p.registry, Horizon: horizon,
		Workers: 1, Replications: 1, Transport: launch.TransportInproc, Files: p.files(c, nil),
	})
	if err != nil {
		return err
	}
	remark(p.stderr, l.Scenario())
	fmt.Fprintf(p.stdout, "%s: good: %s\n", doc.File(), describe(l))
	if digest := l.GraphDigest(); digest != "" {
		fmt.Fprintf(p.stdout, "%s: the graph has the digest %s\n", doc.File(), digest)
	}
	return nil
}

// remark writes a scenario's notes on its file, which are no mistakes.
func remark(w io.Writer, s scenario.Scenario) {
	if n, ok := s.(scenario.Noter); ok {
		for _, line := range n.Notes() {
			fmt.Fprintln(w, line)
		}
	}
}

// describe describes a scenario in one line.
func describe(l *launch.Launch) string {
	g := l.Structure()
	text := fmt.Sprintf("%s, %s of %s, %s", l.Scenario().Name(),
		count(g.NumNodes(), "node"), count(len(g.Simprocs()), "simproc"), links(g))
	if g.NumLinks()+len(g.Meshes()) > 0 {
		text += " with lookaheads " + lookaheadText("from", g.LeastLookahead())
	}
	return text + fmt.Sprintf(", horizon %g s", l.Scenario().Horizon())
}

// lookaheadText is e.g. "of 0.1 s". Models say by the least of all numbers that an event
// comes later than its cause, and nothing more.
func lookaheadText(how string, seconds float64) string {
	if seconds > 0 && seconds <= math.SmallestNonzeroFloat64 {
		return "greater than 0"
	}
	return fmt.Sprintf("%s %.4g s", how, seconds)
}

// links is how nodes are linked: links that are listed, and meshes.
func links(g *node.Structure) string {
	const mesh = "links from everybody to everybody"
	switch {
	case len(g.Meshes()) == 0:
		return count(g.NumLinks(), "link")
	case g.NumLinks() == 0:
		return mesh
	}
	return count(g.NumLinks(), "link") + " and " + mesh
}

// count is e.g. "1 node" or "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// StandardInput is what a scenario from there is called.
const StandardInput = "standard input"

// read reads the scenario file at path, or standard input for "-"; "" is a scenario that flags are put into. Its
// errors are the command line's or the file's fault.
func (p *program) read(path string) (*scenario.Document, error) {
	return p.readInput(path, StandardInput)
}

// readInput is read, where standard input has that name.
func (p *program) readInput(path, input string) (doc *scenario.Document, err error) {
	switch path {
	case "":
		doc, err = p.emptyScenario()
	case "-":
		if f, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintf(p.stderr, "%s: reading the scenario from the terminal; Ctrl-D ends it\n", p.name)
		}
		doc, err = scenario.Read(input, p.stdin)
	default:
		doc, err = scenario.ReadFile(path)
	}
	var problems scenario.Problems
	if err != nil && !errors.As(err, &problems) {
		return nil, usage("%v", err)
	}
	return doc, err
}
