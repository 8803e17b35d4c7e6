// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Headers on an event are small named strings beside the data, such as a tracing
// id. Encoded they are a run of (u16 key length, u16 value length, key, value),
// keys in rising order without repetition, so that equal headers have equal bytes
// and the trace hash doesn't depend on the order of a map.

const headerPrefixBytes = 4

// EncodeHeaders gives the encoded form of h, nil for none. It allocates, so it
// belongs at wiring time; a model that sends the same headers often keeps the
// result. More than HeadersMax bytes in all is an error.
func EncodeHeaders(h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return nil, nil
	}
	keys := make([]string, 0, len(h))
	size := 0
	for k, v := range h {
		keys = append(keys, k)
		size += headerPrefixBytes + len(k) + len(v)
	}
	if size > HeadersMax {
		return nil, fmt.Errorf("envelope: headers of %d bytes, at most %d are allowed: put large values into the data",
			size, HeadersMax)
	}
	slices.Sort(keys)
	out := make([]byte, 0, size)
	for _, k := range keys {
		out = binary.LittleEndian.AppendUint16(out, uint16(len(k)))
		out = binary.LittleEndian.AppendUint16(out, uint16(len(h[k])))
		out = append(append(out, k...), h[k]...)
	}
	return out, nil
}

// Header finds one value in encoded headers. The result aliases them.
func Header(encoded []byte, key string) (value []byte, ok bool) {
	for len(encoded) > 0 {
		k, v, rest, err := nextHeader(encoded)
		if err != nil {
			return nil, false
		}
		if string(k) == key {
			return v, true
		}
		encoded = rest
	}
	return nil, false
}

// CheckHeaders reports whether encoded headers that came from a peer are well
// formed: every length within bounds, keys rising.
func CheckHeaders(encoded []byte) error {
	var last []byte
	for first := true; len(encoded) > 0; first = false {
		k, _, rest, err := nextHeader(encoded)
		if err != nil {
			return err
		}
		if !first && string(k) <= string(last) {
			return fmt.Errorf("%w: header %q after %q, want keys in rising order", ErrMalformed, k, last)
		}
		last, encoded = k, rest
	}
	return nil
}

func nextHeader(encoded []byte) (key, value, rest []byte, err error) {
	if len(encoded) < headerPrefixBytes {
		return nil, nil, nil, fmt.Errorf("%w: %d bytes left in the headers, want at least %d", ErrMalformed,
			len(encoded), headerPrefixBytes)
	}
	k := int(binary.LittleEndian.Uint16(encoded))
	v := int(binary.LittleEndian.Uint16(encoded[2:]))
	body := encoded[headerPrefixBytes:]
	if k+v > len(body) {
		return nil, nil, nil, fmt.Errorf("%w: header of %d+%d bytes, but %d are left", ErrMalformed, k, v, len(body))
	}
	return body[:k:k], body[k : k+v : k+v], body[k+v:], nil
}
