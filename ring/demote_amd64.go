// SPDX-License-Identifier: Apache-2.0

package ring

// demotes reports that this processor has CLDEMOTE. Others do nothing there, but a consumer then looks otherwise.
var demotes = hasDemote()

// hasDemote asks the processor: leaf 7 of CPUID, bit 25 of ECX (Intel, Software Developer's Manual, volume 2, CPUID).
func hasDemote() bool

// ticks is the processor's clock, for differences within a short time.
func ticks() uint64

// demote moves so many lines from p on, which this side has just stored to, from the caches of its own core to the one
// that all cores share: the other side then gets them from there and not from this core, which takes a third longer
// (docs/bench.md, "Lines that are given away"). It is a hint: nothing is read or written, and no address is wrong.
//
//go:noescape
func demote(p *uint64, lines uint64)
