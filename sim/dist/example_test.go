// SPDX-License-Identifier: Apache-2.0

package dist_test

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

func Example() {
	doc, _ := scenario.Parse("shop.yml",
		[]byte(`
service: exponential(3)
transfer: { distribution: gamma, mean: 2, cv: 0.5, plus: 1 }
`))
	r := scenario.NewReader(doc)
	root := r.Root("service", "transfer")
	service, transfer := dist.Read(root.Field("service")), dist.Read(root.Field("transfer"))
	fmt.Println(service, "as", service.Name(), "with a mean of", service.Mean(), r.Err())
	fmt.Println(transfer, "from", transfer.Min())

	s := dist.MakeStream(1, 2, dist.Unpaired)
	fmt.Printf("%.3f %.3f\n", service.Draw(&s), transfer.Draw(&s))
	// Output:
	// exponential(3) as service with a mean of 3 <nil>
	// gamma(2, 0.5) + 1 from 1
	// 1.779 2.906
}
