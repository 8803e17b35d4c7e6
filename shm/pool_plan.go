// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "fmt"

// planFactor is the ratio of one class's payload to the next smaller one's: a
// payload fills at least a quarter of its block, on average over sizes more than
// half, and 1 KiB to 1 GiB are eleven classes.
const planFactor = 4

// planBlocksMin is the least number of blocks in the largest class: one is being
// read by a peer while the next is being filled.
const planBlocksMin = 2

// PlanPool chooses the classes of a pool that takes at most totalBytes of body,
// the smallest for payloads of payloadMin bytes, each of the others for four
// times the one before, as many classes as leave two blocks to the largest.
//
// The arithmetic: with k classes each gets share = (totalBytes - 640) / k, and as
// many blocks as fit into it; k is the largest number for which
// 2 * (128 + payloadMin * 4^(k-1)) <= share, at most 16, payloads at most 1 GiB.
// What the larger classes leave over goes to the smallest. Equal shares of bytes
// suit a load whose sizes are spread evenly over their logarithm; one that knows
// better passes its own classes to FormatPool.
//
// 64 MiB from 4 KiB on, k = 6: a share is 11 184 704 bytes, which makes
// 2 of 4 MiB, 10 of 1 MiB, 42 of 256 KiB, 170 of 64 KiB, 677 of 16 KiB, and 3521
// of 4 KiB. So the largest payload is a sixteenth of the pool.
func PlanPool(totalBytes, payloadMin int) ([]Class, error) {
	smallest := Class{BlockBytes: payloadMin}
	if payloadMin < 1 || payloadMin > BlockBytesMax || totalBytes > BytesMax || totalBytes < PoolHeaderBytes+planBlocksMin*smallest.stride() {
		return nil, fmt.Errorf("shm: pool of %d bytes for payloads of %d and more, want payloads of 1 to %d and room for %d of them with their headers (%d bytes each)", totalBytes, payloadMin, BlockBytesMax, planBlocksMin, BlockHeaderBytes)
	}
	room := totalBytes - PoolHeaderBytes
	sizes := []int{payloadMin}
	for size := payloadMin * planFactor; len(sizes) < ClassesMax && size <= BlockBytesMax; size *= planFactor {
		share := room / (len(sizes) + 1)
		if planBlocksMin*(Class{BlockBytes: size}).stride() > share {
			break
		}
		sizes = append(sizes, size)
	}
	share := room / len(sizes)
	classes := make([]Class, len(sizes))
	blocks := 0
	for i := len(sizes) - 1; i >= 0; i-- {
		c := Class{BlockBytes: sizes[i]}
		if i == 0 {
			share = room
		}
		c.Count = min(share/c.stride(), BlocksMax-blocks-i)
		room -= c.Count * c.stride()
		blocks += c.Count
		classes[i] = c
	}
	return classes, nil
}
