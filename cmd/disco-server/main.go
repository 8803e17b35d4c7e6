// SPDX-License-Identifier: Apache-2.0

// Command disco-server is a store for a group of machines: etcd, embedded, with the settings that a coordination store
// wants. One is enough for a group; three of them are a quorum and go on when one of them fails.
//
// docs/metastore.md says how servers are started and joined. Its ready line names what --store takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// version is put in by the linker.
var version = "unknown"

// options are what the command line asks for.
type options struct {
	data         string
	listen       string
	join         []string
	cert         string
	key          string
	ca           string
	usersCA      string
	passwordFile string
	quota        int // MiB
	untilEOF     bool
	logLevel     string
	level        zap.AtomicLevel
}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "disco-server:", err)
		if _, ok := errors.AsType[failure](err); ok {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

// failure is an error that no other flag or folder would have avoided: its exit status is 1, that of all others 2.
type failure struct{ error }

// command runs a server until a signal ends it.
func command(args []string) error {
	o, err := parse(args)
	if err != nil || o == nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return run(ctx, o)
}

// parse reads the command line; nil options mean that what was asked for has been printed.
func parse(args []string) (*options, error) {
	o, join, show := &options{}, "", false
	f := flag.NewFlagSet("disco-server", flag.ContinueOnError)
	f.StringVar(&o.data, "data", "", "`folder` that holds the store's data; made if it isn't there")
	f.StringVar(&o.listen, "listen", "127.0.0.1:2379",
		"`address` for clients, as other machines reach it; port 0: one that is free, and the same one at every start")
	f.StringVar(&join, "join", "", "`addresses` of running servers, with commas: be one of them")
	f.StringVar(&o.cert, "cert", "", "certificate `file` (PEM), for clients and other servers")
	f.StringVar(&o.key, "key", "", "the certificate's key `file` (PEM)")
	f.StringVar(&o.ca, "ca", "", "certificate authority's `file` (PEM): whose certificates are believed")
	f.StringVar(&o.usersCA, "users-ca", "", "users' certificate authority's `file` (PEM): who shows a certificate of "+
		"it is the user that it names; others show a password")
	f.StringVar(&o.passwordFile, "password-file", "",
		"`file` with the password of user root; the first server that has one makes the store ask for it")
	f.IntVar(&o.quota, "quota", quotaUsed,
		"`MiB` that the data may take on disk, 16 to 8192; beyond it only reads and deletes are done, until there is room")
	f.BoolVar(&o.untilEOF, "until-eof", false, "end as a signal would end it when standard input is closed")
	f.StringVar(&o.logLevel, "log-level", "none",
		"what of etcd's log goes to standard error: debug, info, warn, error or none")
	f.BoolVar(&show, "version", false, "print the version")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if show {
		fmt.Printf("disco-server %s, etcd %s\n", version, etcdVersion)
		return nil, nil
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag: disco-server takes flags only (--help)", f.Arg(0))
	}
	if o.data == "" {
		return nil, errors.New("--data is missing: name a folder of this server's own")
	}
	if join != "" {
		o.join = strings.Split(join, ",")
	}
	return o, o.check()
}
