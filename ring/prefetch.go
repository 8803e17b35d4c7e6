// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package ring

// prefetchStore asks for so many lines from p on, to be stored to: the processor fetches them from the other core while
// this side does something else. Nothing is read or written, and no address is wrong.
//
//go:noescape
func prefetchStore(p *uint64, lines uint64)
