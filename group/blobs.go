// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"os"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/checkpoint/s3"
)

func blobsCommand() app.Command {
	return app.Command{
		Name: blobproc.Command, Hidden: true,
		Usage:       "is what reaches checkpoints in an object store for another program; no command for people",
		Description: "What is given an address s3://BUCKET/PREFIX starts it. Credentials come from the environment.",
		Run:         runBlobs,
	}
}

// runBlobs is the process that has an object store's client.
func runBlobs(c *app.Call) error {
	control, err := blobproc.Inherit()
	if err != nil {
		return app.Usage("checkpoints at an address s3://BUCKET/PREFIX start this (%v)", err)
	}
	return blobproc.Serve(control, func(ctx context.Context, address, owner string) (blobproc.Place, error) {
		store, err := s3.Open(ctx, address, s3.Config{Getenv: os.Getenv, Owner: owner})
		if err != nil {
			return nil, err
		}
		return store, nil
	})
}
