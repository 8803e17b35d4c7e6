// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire"
)

// Whole holds that all of a value is decoded as it was encoded. fields is its method, (*T).fields.
func Whole[T any](t testing.TB, want T, fields func(v *T, c *wire.Codec)) {
	t.Helper()
	var got T
	if err := decoded(t, &want, &got, fields); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// Refused holds that a value isn't decoded, with an error that has want in it.
func Refused[T any](t testing.TB, value T, fields func(v *T, c *wire.Codec), want string) {
	t.Helper()
	var got T
	if err := decoded(t, &value, &got, fields); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: %v, want %q", value, err, want)
	}
}

func decoded[T any](t testing.TB, from, to *T, fields func(v *T, c *wire.Codec)) error {
	t.Helper()
	b, err := wire.Append(nil, func(c *wire.Codec) { fields(from, c) })
	if err != nil {
		t.Fatal(err)
	}
	return wire.Decode(b, func(c *wire.Codec) { fields(to, c) })
}

// Truncated holds that open takes all bytes of good, and refuses them cut short anywhere, with an error that begins
// with prefix.
func Truncated(t testing.TB, good []byte, prefix string, open func(b []byte) error) {
	t.Helper()
	if err := open(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if err := open(good[:n]); err == nil || !strings.HasPrefix(err.Error(), prefix) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(good), err)
		}
	}
}
