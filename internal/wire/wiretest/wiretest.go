// SPDX-License-Identifier: Apache-2.0

// Package wiretest is for tests of encodings: it fills structures, so that a field that is encoded but
// not decoded, or neither, shows as a difference, and holds that what is cut short or wrong is refused.
//
// Guarantee: after Fill no exported field is zero, however deep: numbers, texts, lists, maps,
// structures.
//
//	want := &part{}
//	wiretest.Fill(t, want)
//	// encode, decode, and compare with reflect.DeepEqual
package wiretest

import (
	"reflect"
	"testing"
)

// Fill sets every exported field of *p, deeply.
func Fill(t testing.TB, p any) {
	t.Helper()
	fill(t, reflect.ValueOf(p).Elem())
}

func fill(t testing.TB, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				fill(t, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		fill(t, v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("a\x00b")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(-12.5)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(200)
	default:
		t.Fatalf("wiretest: a field of type %v: how is it sent?", v.Type())
	}
}
