// SPDX-License-Identifier: Apache-2.0

package mem_test

import (
	"context"
	"fmt"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// Two programs share a queue, and one of them leads.
func Example() {
	ctx := context.Background()
	server := mem.NewServer(5 * time.Second)
	open := func() *metastore.Store {
		s, err := metastore.New(ctx, server.NewClient(), metastore.Options{Group: "team-a"})
		if err != nil {
			panic(err)
		}
		return s
	}
	a, b := open(), open()
	defer a.Close()
	defer b.Close()

	lead, err := a.Campaign(ctx, "orchestrator", "host-a")
	if err != nil {
		panic(err)
	}
	if _, err := b.Enqueue(ctx, "jobs", map[string]any{"file": "shop.yml"}); err != nil {
		panic(err)
	}
	item, err := a.Dequeue(ctx, "jobs")
	if err != nil {
		panic(err)
	}
	var job struct{ File string }
	if err := item.Value.Decode(&job); err != nil {
		panic(err)
	}
	state, err := a.Encode("assigned")
	if err != nil {
		panic(err)
	}
	// The job is consumed and its state written, both or none, and only while this one leads.
	err = item.Consume(ctx, []metastore.Cond{lead.Guard()},
		metastore.Op{Path: "state/" + job.File, Do: metastore.Set, Value: state})
	fmt.Println(job.File, err)
	fmt.Println(b.GetTree(ctx, "state", nil))
	// Output:
	// shop.yml <nil>
	// map[shop.yml:assigned] <nil>
}
