// SPDX-License-Identifier: Apache-2.0

// Package ipc lets unrelated processes of one machine meet by name and send each
// other bytes through shared memory: several Senders to one Receiver. No daemon
// stands between them, and no system call either while both are busy.
//
// Guarantee: a Receiver gets each Sender's messages whole, in the order in which they
// were sent, and once each. A peer that dies, wherever it was, is noticed through the
// socket over which the two met: it costs the other side one error, and the other
// lanes nothing. Whatever a peer writes is bounded before it is used. Only processes
// of the same user can meet, and when both have closed nothing is left behind.
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
// How the two meet, and what lies where, is in docs/format/ipc.md. The rooms
// underneath are shm (memory, sleeping), lane, egress and ingress.
package ipc
