// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// Codec encodes values. It may be called by any goroutine.
type Codec interface {
	Encode(v any) ([]byte, error)
	// Decode fills what into points to.
	Decode(data []byte, into any) error
}

// The codecs that every program can read. A store whose [Options] have another one writes values that are marked as of
// its own codec.
var (
	JSON Codec = jsonCodec{}
	CBOR Codec = cborCodec{}
)

// The first byte of what a node holds. A capital one is followed by a mark of markLen bytes, by which whoever has
// written it knows it again.
const (
	tagDirectory = 'd' // and nothing after it
	tagJSON      = 'j'
	tagCBOR      = 'c'
	tagOwn       = 'x'
	markLen      = 13
)

// ErrNoValue is the error about decoding a key that is a directory, or isn't there.
var ErrNoValue = errors.New("holds no value")

// Value is what a key holds, as it was read. It may be used by any goroutine, and is the caller's.
type Value struct {
	Version   Version // zero if the key isn't there, or only has children
	Ephemeral bool
	Owner     uint64 // of an ephemeral key: the same number for all keys of its session; otherwise 0

	key    string
	exists bool
	tag    byte // 0: none, or a directory
	data   []byte
	err    error // why it can't be decoded, or nil
	own    Codec
}

// Exists tells whether there is such a key: with a value, as a directory, or with children only.
func (v Value) Exists() bool { return v.exists }

// HasValue tells whether the key holds a value, which may be malformed, and is no mere directory.
func (v Value) HasValue() bool { return v.tag != 0 || v.err != nil }

// Bytes are the encoded value; they may not be changed.
func (v Value) Bytes() []byte { return v.data }

// Decode fills what into points to. ErrNoValue, the codec's error, or what is wrong with what the key holds.
func (v Value) Decode(into any) error {
	if v.err != nil {
		return fmt.Errorf("key %q: %w", v.key, v.err)
	}
	codec := v.own
	switch v.tag {
	case 0:
		return fmt.Errorf("key %q: %w", v.key, ErrNoValue)
	case tagJSON:
		codec = JSON
	case tagCBOR:
		codec = CBOR
	}
	if codec == nil {
		return fmt.Errorf("key %q: is encoded by a codec of its program's own: give it in Options.Codec", v.key)
	}
	if err := codec.Decode(v.data, into); err != nil {
		return fmt.Errorf("key %q: %w", v.key, err)
	}
	return nil
}

// Any decodes a value into what fits it: nil, bool, int64, float64, string, []any or map[string]any; of CBOR also
// []byte and big.Int.
func (v Value) Any() (any, error) {
	var into any
	err := v.Decode(&into)
	return into, err
}

// JSON is the value as JSON on one line: as it was written, with all digits of its numbers, or what [Value.Any] gives
// of a value that was encoded otherwise. It fails where the value can't be decoded, or has no form in JSON.
func (v Value) JSON() (json.RawMessage, error) {
	if v.err == nil && v.tag == tagJSON {
		var line bytes.Buffer
		if err := json.Compact(&line, v.data); err != nil {
			return nil, fmt.Errorf("key %q: %w", v.key, err)
		}
		return line.Bytes(), nil
	}
	free, err := v.Any()
	if err != nil {
		return nil, err
	}
	text, err := JSON.Encode(free)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", v.key, err)
	}
	return text, nil
}

// tagOf is the tag of a codec's values.
func tagOf(c Codec) byte {
	switch c {
	case JSON:
		return tagJSON
	case CBOR:
		return tagCBOR
	}
	return tagOwn
}

// newMark makes a mark that no other value has: 65 random bits in letters and digits.
func newMark() string { return rand.Text()[:markLen] }

// encode makes what a node holds of a value; mark may be "". The limit is the same with a mark and without one, so that
// what was put can be updated. ErrTooLarge.
func encode(c Codec, v any, mark string) ([]byte, error) {
	data, err := c.Encode(v)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxEncoded {
		return nil, fmt.Errorf("%w: a value of %d bytes when it is encoded, at most %d", ErrTooLarge, len(data),
			MaxEncoded)
	}
	tag := tagOf(c)
	if mark != "" {
		tag -= 'a' - 'A'
	}
	all := make([]byte, 0, 1+len(mark)+len(data))
	return append(append(append(all, tag), mark...), data...), nil
}

// parse takes apart what a node holds: its tag, in small letters or 0 for a directory, and what is encoded.
func parse(raw []byte) (tag byte, data []byte, err error) {
	if len(raw) == 0 {
		return 0, nil, errors.New("holds nothing, not even the byte that says how it is encoded")
	}
	switch tag, data = raw[0], raw[1:]; tag {
	case tagDirectory:
		if len(data) > 0 {
			return 0, nil, fmt.Errorf("is a directory with %d bytes after its tag", len(data))
		}
		return 0, nil, nil
	case tagJSON, tagCBOR, tagOwn:
		return tag, data, nil
	case tagJSON - 'a' + 'A', tagCBOR - 'a' + 'A', tagOwn - 'a' + 'A':
		if len(data) < markLen {
			return 0, nil, fmt.Errorf("has a mark of %d bytes, needs %d", len(data), markLen)
		}
		return tag + 'a' - 'A', data[markLen:], nil
	}
	return 0, nil, fmt.Errorf("begins with the byte %#x, which is no tag (d, j, c or x): "+
		"another program has written it, or another version", tag)
}

// Raw is a value as a node holds it, for those who pass on what others write; key stands for it in messages.
func Raw(key string, raw []byte) Value { return (&Store{}).value(key, Node{Value: raw}) }

// EncodeRaw is what a node holds of a value in JSON. ErrTooLarge.
func EncodeRaw(v any) ([]byte, error) { return encode(JSON, v, "") }

// value makes a Value of a node that was read.
func (s *Store) value(key string, n Node) Value {
	v := Value{Version: n.Version, Ephemeral: n.Ephemeral, Owner: n.Owner, key: key, exists: true,
		own: s.own}
	if n.Value != nil {
		v.tag, v.data, v.err = parse(n.Value)
	}
	return v
}

// jsonCodec is [JSON].
type jsonCodec struct{}

// Encode writes no more than is needed, and <, > and & as they are, so that tools show them.
func (jsonCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Decode keeps whole numbers exact where into leaves their type open.
func (jsonCodec) Decode(data []byte, into any) error {
	free, ok := into.(*any)
	if !ok {
		return json.Unmarshal(data, into)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(free); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("has something after its JSON")
	}
	return exactNumbers(free)
}

// exactNumbers turns json.Number into int64, or else float64, everywhere below v.
func exactNumbers(v *any) (err error) {
	switch x := (*v).(type) {
	case json.Number:
		if !strings.ContainsAny(x.String(), ".eE") {
			if n, err := x.Int64(); err == nil {
				*v = n
				return nil
			}
		}
		*v, err = x.Float64()
		return err
	case []any:
		for i := range x {
			if err := exactNumbers(&x[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range x {
			if err := exactNumbers(&value); err != nil {
				return err
			}
			x[key] = value
		}
	}
	return nil
}

// cborCodec is [CBOR].
type cborCodec struct{}

// Maps whose type is left open have text keys, as those of JSON.
var cborOptions = cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](),
	IntDec: cbor.IntDecConvertSignedOrBigInt, MaxNestedLevels: 1000}

var (
	cborEncoder, errCBOREncoder = cbor.CoreDetEncOptions().EncMode()
	cborDecoder, errCBORDecoder = cborOptions.DecMode()
)

// Encode writes the shortest form, maps in the order of their keys.
func (cborCodec) Encode(v any) ([]byte, error) {
	if errCBOREncoder != nil {
		return nil, errCBOREncoder
	}
	return cborEncoder.Marshal(v)
}

// Decode fills into.
func (cborCodec) Decode(data []byte, into any) error {
	if errCBORDecoder != nil {
		return errCBORDecoder
	}
	return cborDecoder.Unmarshal(data, into)
}
