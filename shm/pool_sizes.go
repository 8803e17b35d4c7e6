// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "fmt"

// sizeFactor is the ratio of one size's payload to the next smaller one's: a
// payload fills at least a quarter of its block, on average more than half, and
// 1 KiB to 1 GiB are eleven sizes.
const sizeFactor = 4

// largestCountMin is the least number of blocks in the largest size: one is being
// read by a peer while the next is being filled.
const largestCountMin = 2

// DefaultBlockSizes chooses the block sizes of a pool that takes at most totalBytes of body:
// the smallest for payloads of payloadMin bytes, each of the others for four times the one
// before it, as many sizes as leave at least two blocks of the largest.
//
// The arithmetic: with k sizes each gets share = (totalBytes - 640) / k, and as
// many blocks as fit into it; k is the largest number for which
// 2 * (128 + payloadMin * 4^(k-1)) <= share, at most 16, payloads at most 1 GiB.
// What the larger sizes leave over goes to the smallest. Equal shares of bytes
// suit payloads that are evenly distributed over the logarithm of their size; a caller with
// another distribution passes its own block sizes to FormatPool.
//
// 64 MiB from 4 KiB on, k = 6: a share is 11 184 704 bytes, which makes
// 2 of 4 MiB, 10 of 1 MiB, 42 of 256 KiB, 170 of 64 KiB, 677 of 16 KiB, and 3521
// of 4 KiB. So the largest payload is a sixteenth of the pool.
func DefaultBlockSizes(totalBytes, payloadMin int) ([]BlockSize, error) {
	smallest := BlockSize{BlockBytes: payloadMin}
	if payloadMin < 1 || payloadMin > BlockBytesMax || totalBytes > BytesMax ||
		totalBytes < PoolHeaderBytes+largestCountMin*smallest.stride() {
		return nil, fmt.Errorf("shm: pool of %d bytes for payloads of %d and more, want payloads of 1 to %d and room "+
			"for %d of them with their headers (%d bytes each)", totalBytes, payloadMin, BlockBytesMax, largestCountMin,
			BlockHeaderBytes)
	}
	room := totalBytes - PoolHeaderBytes
	payloads := []int{payloadMin}
	for size := payloadMin * sizeFactor; len(payloads) < BlockSizesMax && size <= BlockBytesMax; size *= sizeFactor {
		share := room / (len(payloads) + 1)
		if largestCountMin*(BlockSize{BlockBytes: size}).stride() > share {
			break
		}
		payloads = append(payloads, size)
	}
	share := room / len(payloads)
	sizes := make([]BlockSize, len(payloads))
	blocks := 0
	for i := len(payloads) - 1; i >= 0; i-- {
		c := BlockSize{BlockBytes: payloads[i]}
		if i == 0 {
			share = room
		}
		c.Count = min(share/c.stride(), BlocksMax-blocks-i)
		room -= c.Count * c.stride()
		blocks += c.Count
		sizes[i] = c
	}
	return sizes, nil
}
