// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// The bounds of --quota, in MiB. etcd advises against more.
const (
	quotaMin  = 16
	quotaMax  = 8192
	quotaUsed = 2048 // where nothing else is said
)

// roomEvery is how often a server whose quota is used up looks whether it has room again.
const roomEvery = time.Second

// room brings a server whose quota is used up back by itself. etcd stays closed for what is written, also after keys have
// been deleted, until somebody has its history dropped, its file packed and its alarm put out: here, each server does so.
type room struct {
	*embed.Etcd
	quota    int64 // bytes
	told     bool
	dropped  int64 // revision up to which the history has been dropped
	packedAt int64 // bytes in use when the file was packed last
}

// keepRoom looks again and again until ctx ends.
func keepRoom(ctx context.Context, e *embed.Etcd, quota int64) {
	r := &room{Etcd: e, quota: quota}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(roomEvery):
		}
		var err error
		if r.full() {
			err = r.make(ctx)
		} else {
			// Where another server has made room, what it dropped is still in this one's file.
			r.told = false
			err = r.pack()
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "disco-server: making room:", err)
		}
	}
}

// full tells whether this server has raised the alarm.
func (r *room) full() bool {
	for _, a := range r.Server.Alarms() {
		if a.Alarm == pb.AlarmType_NOSPACE && a.MemberID == uint64(r.Server.MemberID()) {
			return true
		}
	}
	return false
}

// enough is how many bytes may be in use for the store to be written to again: with less than an eighth left it would be
// full again at once, and pack its file each time.
func (r *room) enough() int64 { return r.quota - r.quota/8 }

// pack makes a file that is too large smaller, if that gives enough room.
func (r *room) pack() error {
	store := r.Server.Backend()
	if store.Size() < r.enough() {
		r.packedAt = 0
		return nil
	}
	// Sizes are as of the last commit. What that one freed is free with the next, and none comes while nothing is written.
	for range 2 {
		store.ForceCommit()
	}
	used := store.SizeInUse()
	if used >= r.enough() || used == r.packedAt {
		return nil
	}
	r.packedAt = used
	if err := r.Server.Defragment(); err != nil {
		return fmt.Errorf("packing the data: %w", err)
	}
	return nil
}

// make drops the history, packs the file if that gives enough room, and ends the alarm if there is.
func (r *room) make(ctx context.Context) error {
	if rev := r.Server.KV().Rev(); rev > r.dropped {
		ctx, cancel := context.WithTimeout(ctx, attemptMax)
		_, err := r.Server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
		cancel()
		if err != nil && r.Server.KV().FirstRev() < rev { // another server may have done so
			return err
		}
		r.dropped = rev
	}
	if err := r.pack(); err != nil {
		return err
	}
	store := r.Server.Backend()
	used := store.Size()
	if used >= r.enough() {
		if !r.told {
			r.told = true
			fmt.Fprintf(os.Stderr, "disco-server: the quota of %d MiB is used up: reads and deletes only, until keys are "+
				"deleted and less than %d MiB are in use (now %d), or it is started with a larger --quota\n", r.quota>>20,
				r.enough()>>20, store.SizeInUse()>>20)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	_, err := r.Server.Alarm(ctx, &pb.AlarmRequest{MemberID: uint64(r.Server.MemberID()),
		Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE})
	if err == nil {
		fmt.Fprintf(os.Stderr, "disco-server: there is room again: %d of %d MiB are in use\n", used>>20, r.quota>>20)
	}
	return err
}
