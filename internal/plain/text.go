// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// How much of a value is shown.
const (
	textMax     = 64 // bytes of a string
	elementsMax = 16 // of an array or slice
)

// Text is what bytes mean, in the words of the model: Call{Arrived: 3.2, Skill: 1}. It is for people, and slow. Bytes
// that aren't a value are shown as such, with the reason.
func (p *Plan[T]) Text(src []byte) string {
	var v T
	if err := p.Decode(&v, src); err != nil {
		return fmt.Sprintf("%s that can't be read, % x (%v)", p.name, short(string(src)), err)
	}
	return p.Format(&v)
}

// Format is Text of a value. A type with a String method, such as time.Duration, is shown by it.
func (p *Plan[T]) Format(v *T) string {
	var b strings.Builder
	format(&b, reflect.ValueOf(v).Elem())
	return b.String()
}

var stringerType = reflect.TypeFor[fmt.Stringer]()

// format writes a value that has an address.
func format(b *strings.Builder, v reflect.Value) {
	t := v.Type()
	if reflect.PointerTo(t).Implements(stringerType) && !embedsStringer(t) {
		// A way around the protection of fields that aren't exported.
		v = reflect.NewAt(t, v.Addr().UnsafePointer())
		b.WriteString(short(fmt.Sprint(v.Interface())))
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		formatStruct(b, v)
	case reflect.Array, reflect.Slice:
		formatList(b, v)
	case reflect.String:
		b.WriteString(strconv.Quote(short(v.String())))
	case reflect.Float32:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 32))
	case reflect.Float64:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		fmt.Fprint(b, v)
	}
}

func formatStruct(b *strings.Builder, v reflect.Value) {
	t := v.Type()
	b.WriteString(t.Name() + "{")
	comma := ""
	for i := range t.NumField() {
		if t.Field(i).Name == "_" {
			continue
		}
		b.WriteString(comma + t.Field(i).Name + ": ")
		format(b, v.Field(i))
		comma = ", "
	}
	b.WriteByte('}')
}

func formatList(b *strings.Builder, v reflect.Value) {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == elementsMax {
			fmt.Fprintf(b, "… %d in all", v.Len())
			break
		}
		format(b, v.Index(i))
	}
	b.WriteByte(']')
}

// embedsStringer reports whether a struct's String may be that of one field among several.
func embedsStringer(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.NumField() == 1 {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		p := reflect.PointerTo(f.Type)
		if f.Anonymous && (f.Type.Implements(stringerType) || p.Implements(stringerType)) {
			return true
		}
	}
	return false
}
