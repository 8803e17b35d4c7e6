// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/node"
)

type order struct{ Item string }

// depot is a model of two nodes. A shop asks a store for an item, and books it at once
// at its own accounts; the store answers within an hour.
type depot struct{}

// Marshal makes depot a Serializer.
func (depot) Marshal(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(dst, text...), err
}

func (depot) Unmarshal(src []byte, v any) error { return json.Unmarshal(src, v) }

func (depot) Graph() *node.Graph {
	shop, accounts := node.Endpoint{Node: 0, Simproc: 0}, node.Endpoint{Node: 0, Simproc: 1}
	store := node.Endpoint{Node: 1, Simproc: 0}
	return &node.Graph{
		Simprocs: []string{"desk", "accounts"},
		Nodes:    []node.Node{{Name: "shop"}, {Name: "store"}},
		Links: []node.Link{
			{From: shop, To: store, Lookahead: 1},
			{From: store, To: shop, Lookahead: 1},
			{From: shop, To: accounts},
		},
	}
}

func (depot) NewHandler(p *node.Simproc) (node.Handler, error) { return depotHandler{}, nil }

type depotHandler struct{}

func (depotHandler) Handle(p *node.Simproc, events []node.Event) error {
	c := p.Controller()
	for _, ev := range events {
		var o order
		if err := (depot{}).Unmarshal(ev.Data, &o); err != nil {
			return err
		}
		fmt.Printf("%v: %s got %s\n", p.Now(), p.Name(), o.Item)
	}
	if p.Name() != "shop/desk" || p.Now() != 0 {
		return nil
	}
	if err := c.SendEvent("self/accounts", 0, order{"a lamp, on credit"}, nil); err != nil {
		return err
	}
	if err := c.SendEvent("store/desk", 2, order{"a lamp"}, map[string]string{"urgent": "yes"}); err != nil {
		return err
	}
	return c.SendPromise("store/desk", 8) // nothing more before epoch 8
}

// wire is a Port that prints what leaves the worker.
type wire struct{ g *node.Graph }

func (w wire) SendEvent(_ int, ev *envelope.Event) error {
	urgent, _ := envelope.Header(ev.Headers, "urgent")
	fmt.Printf("   out: event to %s for %v: %s, urgent: %s\n", w.g.Name(node.SimprocID(ev.Target)), ev.Epoch, ev.Data,
		urgent)
	return nil
}

func (w wire) SendPromise(_ int, p *envelope.Promise) error {
	fmt.Printf("   out: promise %d to %s: %d events, then nothing before %v\n", p.Seqnr,
		w.g.Name(node.SimprocID(p.Target)), p.NumEvents, p.Epoch)
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// NodeControllers whose workers promise link by link: this program hosts the shop, and is
// itself what carries events and promises to and from wherever the store is.
func ExampleNodeController() {
	model := depot{}
	g := model.Graph()
	plan, err := node.NewPlan(g, []int32{0, 1}, 0, 2) // the store is on worker 1
	must(err)
	must(plan.PromiseByLink())
	e, err := node.NewEngine(plan, node.Config{Model: model, Horizon: 100, Port: wire{g}})
	must(err)
	shop, err := e.Controller("shop")
	must(err)
	run := func() {
		n, err := e.Run(1000, math.Inf(1))
		must(err)
		_, err = e.SendPromises(1, 10) // all that say more than the last ones
		must(err)
		if w, ok := shop.Queue(0).WaitingFor(); n == 0 && ok {
			fmt.Printf("   waits for %v\n", w)
		}
	}
	run()

	desk, store := uint32(0), uint32(2) // dense ids: node × layers + rank
	promise := func(seqnr uint64, epoch float64, events uint64) {
		must(shop.ReceivePromise(1, &envelope.Promise{Target: desk, Sender: store, Seqnr: seqnr, Epoch: epoch,
			NumEvents: events}))
	}
	promise(1, 3, 0) // the store will answer at 3 or later
	run()
	promise(2, 50, 1) // there is one answer, which the promise has overtaken
	run()
	must(shop.ReceiveEvent(1, &envelope.Event{Target: desk, Sender: store, Epoch: 3.5,
		Data: []byte(`{"Item":"the lamp"}`)}, 0))
	run()

	// Output:
	//    out: promise 1 to store/desk: 0 events, then nothing before 1
	//    waits for a promise of store/desk beyond epoch 0
	//    out: event to store/desk for 2: {"Item":"a lamp"}, urgent: yes
	// 0: shop/accounts got a lamp, on credit
	//    out: promise 2 to store/desk: 1 events, then nothing before 8
	//    waits for an event of store/desk (0 of 1 arrived)
	// 3.5: shop/desk got the lamp
	//    out: promise 3 to store/desk: 1 events, then nothing before 51
}
