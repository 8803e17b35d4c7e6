// SPDX-License-Identifier: Apache-2.0

// Package view shows the directory of a run's results in a browser: the graph with the load on it, outages as they
// happen, how figures develop over simulated time, and the same while the run is under way. docs/web.md says what
// there is to see, and what the server promises. It is a program of its own, disco-view, since a server of HTTP is
// half as large as all of disco-run.
//
// Guarantee: only files that the output lists are read, whatever is asked for, and nothing is written. What is read is
// bounded, and a damaged or missing file is an answer that says so, not the end of the server. A page of another site
// can't read anything through a person's browser.
//
//	d, err := view.Open("out")
//	err = webserver.New(view.Handler(d), names...).Serve(listener)
package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/webserver"
	"github.com/urfave/cli/v2"
)

// Commands is web.
func Commands() []app.Command {
	return []app.Command{{
		Name: "web", Usage: "shows the results of a run in a browser", ArgsUsage: "DIR",
		Description: "DIR is what `run FILE --out DIR` has written, or is writing. It runs until Ctrl-C.",
		Examples:    []string{"web out", "web out --listen 127.0.0.1:8080"},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDR` of the view, host:port; port 0: one " +
				"that is free. Everybody who reaches an address other than the loopback's can read the results"},
		},
		Run: run,
	}}
}

func run(c *app.Call) error {
	if c.NArg() != 1 {
		return app.Usage("found %d arguments, want DIR: the directory that `run FILE --out DIR` has written", c.NArg())
	}
	d, err := Open(c.Args().First())
	if err != nil {
		return app.Usage("%v", err)
	}
	address := c.String("listen")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return app.Usage("--listen: found %.100q, want host:port, such as 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return app.Usage("--listen: found port %.20q in %.100q, want a number of 0 to 65535", port, address)
	}
	listener, at, err := webserver.Listen(address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", address, err)
	}
	defer listener.Close()
	if webserver.Open(at) {
		fmt.Fprintf(c.Stderr, "%s: warning: everybody who reaches %s can read the results: there is no password\n",
			c.Program, listener.Addr())
	}
	ctx, undo := c.Interruptible()
	defer undo()
	_, err = fmt.Fprintf(c.Stdout, "the view of %s is at http://%s/ until Ctrl-C\n", c.Args().First(),
		shownAddress(host, at))
	if err != nil {
		return nil // nobody would know where it is; the program reports what is wrong with standard output
	}
	return serve(ctx, listener, webserver.New(Handler(d), webserver.Names(address, at)...))
}

// shownAddress is what a person enters in a browser.
func shownAddress(host string, at netip.AddrPort) string {
	if at.Addr().IsUnspecified() {
		if own, err := os.Hostname(); err == nil {
			host = own
		}
	} else if host == "" {
		host = at.Addr().String()
	}
	return net.JoinHostPort(host, fmt.Sprint(at.Port()))
}

// serve answers until ctx ends, which ends answers under way, too.
func serve(ctx context.Context, listener net.Listener, server *http.Server) error {
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(listener)
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("the view: %w", err)
}
