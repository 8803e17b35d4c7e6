// SPDX-License-Identifier: Apache-2.0

// Package ipc connects unrelated processes by name; they send each other bytes through shared memory, several Senders
// to one Receiver. There is no daemon between them, and no system call while both are busy. A Receiver may also be on
// another machine, whose agent listens at host:port; then the agents of both pass the messages on.
//
// Guarantee: a Receiver gets each Sender's messages whole, in the order in which they were sent, and once each. A
// peer that dies, at any point, is noticed through the socket of the handshake: the other side gets one error, and
// the other lanes are not affected. Whatever a peer writes is checked before it is used. Only processes of the same
// user can connect, and when both have closed nothing is left behind.
//
//	r, err := ipc.Listen("prices", ipc.ListenConfig{})       // one process
//	m, err := r.Receive(ctx)
//	use(m.Data)
//	r.Release(&m)
//
//	s, err := ipc.Dial(ctx, "prices", ipc.DialConfig{})      // any other one
//	err = s.Send(ctx, data)
//	err = s.Close()
//
//	s, err := ipc.Dial(ctx, "h2:7400/prices", ipc.DialConfig{}) // of a Receiver on h2; the rest is the same
//
// Between machines a message for which Send has returned nil is on its way: it is lost where they are cut off for
// longer than 10 s, which both sides take for the death of the other one.
//
// The handshake and the layout are in docs/format/ipc.md. The packages underneath are shm (memory, sleeping), lane,
// egress and ingress.
package ipc
