// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/viewproc"
	"github.com/urfave/cli/v2"
)

// MetricsCommand serves metrics of a run that is under way already.
func MetricsCommand() app.Command {
	return app.Command{Name: "metrics", Usage: "serves metrics of a run under way for Prometheus", ArgsUsage: "PID",
		Description: "PID is what `ps` lists. It ends with the run, or by Ctrl-C. `run --metrics ADDR` does it\n" +
			"from the begin on.",
		Examples: []string{"metrics 4711", "metrics 4711 --listen 127.0.0.1:9100"},
		Flags: []cli.Flag{&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0",
			Usage: "`ADDR` of the metrics, host:port; port 0: one that is free"}},
		Run: serveMetrics}
}

func serveMetrics(c *app.Call) error {
	pid, err := strconv.Atoi(c.Args().First())
	if c.NArg() != 1 || err != nil || pid < 1 {
		return app.Usage("found %q, want the PID of one run: `disco-run ps` lists them", c.Args().Slice())
	}
	live, err := inspect.Open(pid)
	if errors.Is(err, inspect.ErrNoRun) {
		return app.Usage("process %d is no run, or only begins or ends it: `disco-run ps` lists them", pid)
	}
	if err != nil {
		return err
	}
	if err := live.Close(); err != nil {
		return err
	}
	ctx, undo := c.Interruptible()
	defer undo()
	r := &run{begin: &viewproc.Begin{PID: pid, Metrics: c.String("listen"), Version: app.Version()},
		over: make(chan struct{})}
	defer r.close()
	serving, err := r.open(nil)
	if err != nil {
		return err
	}
	for _, line := range serving.Remarks {
		fmt.Fprintf(c.Stderr, "%s: %s\n", c.Program, line)
	}
	_, err = fmt.Fprintf(c.Stdout, "metrics of process %d are at %s until Ctrl-C, or its end\n", pid, serving.Metrics)
	if err != nil {
		return nil // nobody would know where they are; the program reports what is wrong with standard output
	}
	for tick := time.NewTicker(lookPeriod); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil {
				return nil
			}
		}
	}
}
