// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// bare is what rows need of an engine's usual client, each in the shortest way that it has. Keys are absolute.
type bare interface {
	put(ctx context.Context, key string, value []byte) error
	// keepPut writes a key that is there, such that an ephemeral one stays one.
	keepPut(ctx context.Context, key string, value []byte) error
	// get reads as is usual; fencedGet such that no acknowledged write is missed, where that is something else.
	get(ctx context.Context, key string) error
	fencedGet(ctx context.Context, key string) error
	// watch reads a key, calls ready, and calls changed after each change with its new value, until the client closes.
	watch(ctx context.Context, key string, ready func(), changed func(value []byte)) error
	// tree reads all keys below some directories.
	tree(ctx context.Context, dirs ...string) (keys int, err error)
	// update writes two keys in one transaction, if a third is there.
	update(ctx context.Context, guard, a, b string, value []byte) error
	// create makes a key that lives as long as the client; gone returns when a key is deleted.
	create(ctx context.Context, key string) error
	remove(ctx context.Context, key string) error
	gone(ctx context.Context, key string, watching func()) error
	// enqueue appends below a directory; take removes its first, or tells that there is none.
	enqueue(ctx context.Context, dir string, value []byte) error
	take(ctx context.Context, dir string) (found bool, err error)
	close()
}
