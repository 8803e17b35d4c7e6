// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/binary"
	"fmt"
	"math"
)

// requestBytes is the size of a request's event data: birth (float64), number
// (uint64), both little endian.
const requestBytes = 16

// request is what travels from box to box.
type request struct {
	born   float64 // when the generator made it, simulated seconds
	number uint64  // 0, 1, 2, … in the order of birth
}

func (r request) put(b *[requestBytes]byte) {
	binary.LittleEndian.PutUint64(b[:8], math.Float64bits(r.born))
	binary.LittleEndian.PutUint64(b[8:], r.number)
}

func getRequest(data []byte) (request, error) {
	if len(data) != requestBytes {
		return request{}, fmt.Errorf("service: event of %d bytes, want a request of %d", len(data), requestBytes)
	}
	return request{
		born:   math.Float64frombits(binary.LittleEndian.Uint64(data)),
		number: binary.LittleEndian.Uint64(data[8:]),
	}, nil
}
