// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/disco-sim/disco/metastore"
)

// beside runs blocks of calls of the bare client and of the backend in turn, and reports both and the median ratio of
// rates.
func beside(b *testing.B, bare, ours func(i int) error) {
	const block = 20
	var times [2]time.Duration
	var ratios []float64
	n := 0
	for b.Loop() {
		var took [2]time.Duration
		for k := range 2 {
			which := (n + k) % 2
			began := time.Now()
			for i := range block {
				if err := []func(int) error{bare, ours}[which](i); err != nil {
					b.Fatal(err)
				}
			}
			took[which] = time.Since(began)
			times[which] += took[which]
		}
		ratios = append(ratios, float64(took[0])/float64(took[1]))
		n++
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(times[0].Microseconds())/float64(n*block), "µs/bare")
	b.ReportMetric(float64(times[1].Microseconds())/float64(n*block), "µs/ours")
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
}

func BenchmarkPut(b *testing.B) {
	c := one(b, start(b, 1).Addrs())
	value := make([]byte, 200)
	ctx := b.Context()
	beside(b, func(i int) error {
		_, err := c.client.Put(ctx, fmt.Sprint("/g/bare/", i), string(value))
		return err
	}, func(i int) error {
		return c.Commit(ctx, nil, []metastore.Op{{Path: fmt.Sprint("/g/ours/", i), Do: metastore.Set, Value: value}})
	})
}

func BenchmarkGet(b *testing.B) {
	c := one(b, start(b, 1).Addrs())
	ctx := b.Context()
	if _, err := c.client.Put(ctx, "/g/v", "some value"); err != nil {
		b.Fatal(err)
	}
	beside(b, func(int) error {
		_, err := c.client.Get(ctx, "/g/v")
		return err
	}, func(int) error {
		_, err := c.Get(ctx, "/g/v")
		return err
	})
}

// one is a client without a proxy.
func one(t testing.TB, addrs []string) *Backend {
	t.Helper()
	return client(t, Options{Endpoints: addrs, TTL: 5 * time.Second})
}

// used is what is in use, heap and stacks, when nothing more happens.
func used() uint64 {
	time.Sleep(300 * time.Millisecond)
	for range 5 { // stacks shrink by half at most
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkWatches is how much memory a watch takes, each with a goroutine that waits for changes.
func BenchmarkWatches(b *testing.B) {
	const watches = 1000
	addrs := start(b, 1).Addrs()
	measure := func(watch func(c *Backend, i int, ready *sync.WaitGroup)) float64 {
		c := one(b, addrs)
		defer c.Close()
		before := used()
		var ready sync.WaitGroup
		for i := range watches {
			ready.Add(1)
			watch(c, i, &ready)
		}
		ready.Wait()
		return float64(used()-before) / watches
	}
	var bare, ours []float64
	for b.Loop() {
		bare = append(bare, measure(func(c *Backend, i int, ready *sync.WaitGroup) {
			go func() {
				watch := c.client.Watch(c.ended, fmt.Sprint("/g/", i), clientv3.WithCreatedNotify())
				<-watch
				ready.Done()
				for range watch {
				}
			}()
		}))
		ours = append(ours, measure(func(c *Backend, i int, ready *sync.WaitGroup) {
			go func() {
				f := c.Watch(fmt.Sprint("/g/", i), metastore.Data)
				_, err := f.Next(c.ended)
				ready.Done()
				for err == nil {
					_, err = f.Next(c.ended)
				}
			}()
		}))
	}
	slices.Sort(bare)
	slices.Sort(ours)
	b.ReportMetric(bare[len(bare)/2], "B/bare")
	b.ReportMetric(ours[len(ours)/2], "B/ours")
	b.ReportMetric(ours[len(ours)/2]/bare[len(bare)/2], "times")
}
