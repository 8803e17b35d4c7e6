// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"fmt"
	"testing"
)

func BenchmarkEvent(b *testing.B) {
	for _, size := range []int{8, 64, 1024} {
		e := Event{Epoch: 1, Target: 2, Sender: 3, Data: make([]byte, size)}
		dst := make([]byte, e.Size())
		b.Run(fmt.Sprintf("encode/%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				e.Encode(dst)
			}
		})
		b.Run(fmt.Sprintf("decode/%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			var got Event
			for b.Loop() {
				if err := got.Decode(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPromise(b *testing.B) {
	p := Promise{Epoch: 1, Seqnr: 2}
	dst := make([]byte, PromiseBytes)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			p.Encode(dst)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodePromise(dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}
