// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package shm

// disco shares memory between processes through Linux system calls and relies on
// 64-bit little-endian words. Every other file of this package is left out of the
// build elsewhere, so that the one thing the compiler has to say is this name.
const _ = disco_needs_linux_on_amd64_or_arm64
