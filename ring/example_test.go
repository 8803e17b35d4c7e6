// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"fmt"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/ring"
)

func Example() {
	mem := aligned.Bytes(ring.Size(1<<12), ring.Alignment)
	if err := ring.Init(mem, ring.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	p, err := ring.OpenProducer(mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := ring.OpenConsumer(mem)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, text := range []string{"first", "second"} {
		buf, err := p.Claim(len(text))
		if err != nil { // ring.ErrFull: not now
			fmt.Println(err)
			return
		}
		copy(buf, text)
		p.Commit()
	}
	fmt.Println("published", p.Publish())

	for {
		rec, err := c.Next()
		if err != nil || rec == nil {
			break
		}
		fmt.Printf("%s\n", rec)
	}
	c.Release()
	// Output:
	// published 2
	// first
	// second
}
