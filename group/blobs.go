// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
	"github.com/disco-sim/disco/internal/checkpoint/storeblobs"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

func blobsCommand() app.Command {
	return app.Command{
		Name: blobproc.Command, Hidden: true,
		Usage: "is what reaches checkpoints in a store for another program; no command for people",
		Description: "What is given an address such as s3://BUCKET/PREFIX or etcd://HOST/NAME starts it.\n" +
			"Credentials come from the environment.",
		Run: runBlobs,
	}
}

// runBlobs is the process that has the clients of stores.
func runBlobs(c *app.Call) error {
	control, err := blobproc.Inherit()
	if err != nil {
		return app.Usage("checkpoints at an address such as s3://BUCKET/PREFIX start this (%v)", err)
	}
	return blobproc.Serve(control, func(ctx context.Context, address, owner string) (blobproc.Place, error) {
		if !strings.HasPrefix(address, s3.Scheme) {
			return openPlace(ctx, address, owner)
		}
		store, err := s3.Open(ctx, address, s3.Config{Getenv: os.Getenv, Owner: owner})
		if err != nil {
			return nil, err
		}
		return store, nil
	})
}

// placeQuiet is for how long a metadata store is waited for that doesn't answer; less in tests.
var placeQuiet = storeblobs.QuietMax

// place is one in a metadata store, which is open for it alone.
type place struct {
	*storeblobs.Place
	store *metastore.Store
}

// Close implements blobproc.Place.
func (p *place) Close() { _ = p.store.Close() } // its session ends anyway

// openPlace opens the place for checkpoints at the URL of a metadata store, whose path is the run's own.
func openPlace(ctx context.Context, address, owner string) (blobproc.Place, error) {
	a, err := dial.Parse(address)
	if err != nil {
		return nil, err
	}
	if a.Chroot == "" {
		return nil, fmt.Errorf("%s: found no path, want one of the run's own, such as %s/night", address,
			strings.TrimRight(address, "/"))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, placeQuiet, fmt.Errorf("it hasn't answered for %v", placeQuiet))
	defer cancel()
	store, err := dial.Open(ctx, dial.Options{URL: address, CA: os.Getenv("DISCO_STORE_CA"),
		Cert: os.Getenv("DISCO_STORE_CERT"), Key: os.Getenv("DISCO_STORE_KEY"),
		Password: os.Getenv("DISCO_STORE_PASSWORD"), Store: storeblobs.Options(storeblobs.Group)})
	if wrong := (*dial.OptionsError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("%w (of places for checkpoints, certificates are in DISCO_STORE_CA, DISCO_STORE_CERT "+
			"and DISCO_STORE_KEY)", err)
	}
	if err != nil {
		return nil, err
	}
	p := storeblobs.New(store, storeblobs.Key, address, owner)
	p.Quiet = placeQuiet
	p.Report = func(text string) { fmt.Fprintln(os.Stderr, text) } // which the program passes on that has started this
	return &place{p, store}, nil
}
