// SPDX-License-Identifier: Apache-2.0

// Package beside is the commands of package group as programs that lie in the folder of this one, or in PATH:
// disco-server with etcd inside, disco-group with the clients of stores, disco-graph with databases, and disco-view
// with a server of web pages. A program that only runs simulations stays without them.
//
// Guarantee: a command gets all arguments as they are, and its exit status is the program's own; where the program is
// missing, the message says how to get it.
//
//	func main() { app.MainWith(beside.Commands(), pond.Kind()) }
package beside

import (
	"fmt"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/graphproc"
	"github.com/urfave/cli/v2"
)

// The programs.
const (
	serverProgram = "disco-server"
	groupProgram  = "disco-group"
	graphProgram  = "disco-graph"
	viewProgram   = "disco-view"
)

// Commands are server, graph, web, store, cluster, agent, machines, certs, those for experiments, what joins the
// machines of a run, and what reaches an object store.
func Commands() []app.Command {
	return []app.Command{serverCommand(),
		{Name: "graph", Usage: "keeps layered graphs in a database, and reads and writes files of them",
			Program: graphProgram},
		{Name: graphproc.Command, Hidden: true, Usage: "is what runs with a graph: section start to read a database",
			Program: graphProgram},
		{Name: "web", Usage: "shows the results of a run in a browser", Program: viewProgram},
		{Name: "metrics", Usage: "serves metrics of a run under way for Prometheus", Program: viewProgram},
		{Name: "store", Usage: "looks into a group's store, and mends it", Program: groupProgram},
		{Name: "cluster", Usage: "shows the machines of a group, their servers, and what these do",
			Program: groupProgram},
		{Name: "agent", Usage: "makes this machine one of a group, and takes runs over several machines",
			Program: groupProgram, Self: "program"},
		{Name: "machines", Usage: "shows which machines take runs, and how they are", Program: groupProgram,
			Self: "program"},
		{Name: "submit", Usage: "has the machines of a group simulate a scenario many times", Program: groupProgram,
			Self: "program"},
		{Name: "list", Usage: "shows the experiments of a group, the newest last", Program: groupProgram},
		{Name: "show", Usage: "shows an experiment: what was submitted, how far it is, and what has failed",
			Program: groupProgram},
		{Name: "pause", Usage: "has nothing more of an experiment begin, and what runs stand still",
			Program: groupProgram},
		{Name: "continue", Usage: "goes on with an experiment that was paused", Program: groupProgram},
		{Name: "cancel", Usage: "gives an experiment up: what has ended stays", Program: groupProgram},
		{Name: "retry", Usage: "tries what has failed, or was cancelled, of an experiment again",
			Program: groupProgram},
		{Name: "priority", Usage: "gives an experiment another class in the queue", Program: groupProgram},
		{Name: "watch", Usage: "shows an experiment until it has ended", Program: groupProgram},
		{Name: "logs", Usage: "shows the last of what a run of an experiment has written", Program: groupProgram},
		{Name: "results", Usage: "gives the results of an experiment", Program: groupProgram, Self: "program"},
		{Name: "audit", Usage: "shows who has done what with the experiments of a group, when and why",
			Program: groupProgram},
		{Name: "door", Usage: "accepts experiments for several groups, and gives each to the one that fits",
			Program: groupProgram},
		{Name: child.Command, Hidden: true, Usage: "is what a run over machines starts to join them",
			Program: groupProgram},
		{Name: blobproc.Command, Hidden: true, Usage: "is what checkpoints in an object store start to reach it",
			Program: groupProgram},
		{Name: "certs", Usage: "makes certificates, by which machines and users are known", Program: groupProgram}}
}

// serverFlags are those of disco-server, which gets them as they are given. Only its --version isn't among them.
func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "data", Usage: "`FOLDER` of the store's data; made where it is missing"},
		&cli.StringFlag{Name: "listen", Usage: "`ADDR` for clients, host:port; 127.0.0.1:2379 if not given"},
		&cli.StringFlag{Name: "join", Usage: "`ADDR,…` of servers that run: be one of them"},
		&cli.StringFlag{Name: "cert", Usage: "`FILE` of the certificate, for clients and other servers"},
		&cli.StringFlag{Name: "key", Usage: "`FILE` of its key"},
		&cli.StringFlag{Name: "ca", Usage: "`FILE` of the certificate that signs the others' ones"},
		&cli.StringFlag{Name: "users-ca", Usage: "`FILE` of the certificate that signs users' ones: who shows one is " +
			"that user, others show a password"},
		&cli.StringFlag{Name: "password-file",
			Usage: "`FILE` with the password of the user root, for which the store asks from then on"},
		&cli.IntFlag{Name: "quota", DefaultText: "2048",
			Usage: "`MIB` on disk for the data, 16 to 8192: beyond it only reads and deletes are done"},
		&cli.StringFlag{Name: "log-level", Usage: "etcd's log on standard error: debug, info, warn, error or none"},
		&cli.BoolFlag{Name: "until-eof", Usage: "end when standard input is closed, as by a signal"},
	}
}

func serverCommand() app.Command {
	return app.Command{
		Name: "server", Usage: "serves a group's store (etcd, embedded) from this machine",
		Description: "One server is enough for a group; with three of them one may fail. The first needs --data\n" +
			"only; each further one names one that runs: --join ADDR. Started again with the same --data\n" +
			"it is the same server. It runs until Ctrl-C. The program is " + serverProgram + ",\n" +
			"in the folder of this one.",
		Examples: []string{"server --data store", "server --data store --listen 10.0.0.1:2379 --join 10.0.0.2:2379 " +
			"--cert cert.pem --key key.pem --ca ca.pem"},
		Flags: serverFlags(),
		Run:   runServer,
	}
}

// runServer makes this process the server: signals and the exit status are the server's own.
func runServer(c *app.Call) error {
	if c.NArg() > 0 {
		return app.Usage("found the argument %q, want none: flags say everything", c.Args().First())
	}
	if c.String("data") == "" {
		return app.Usage("there is no --data FOLDER: want the folder of the store's data")
	}
	return app.Become(serverProgram, serverProgram, serverArgs(c))
}

// serverArgs are the flags that were given, as the server takes them.
func serverArgs(c *app.Call) (args []string) {
	for _, f := range serverFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			args = append(args, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	return args
}
