// SPDX-License-Identifier: Apache-2.0

// Package setting takes apart the texts in which people give fields of a scenario and their values: KEY=VALUE, and
// several with commas between.
//
// Guarantee: what stands in quotes or brackets stays together, so a value of one place is the same value in another:
// --set, --sweep, and what a step of a pipeline exports. Nothing here knows what a key or a value means.
package setting

import (
	"fmt"
	"strings"
)

// KeyOf cuts "key=rest" at the first = that stands in no double quotes.
func KeyOf(text string) (key, rest string, found bool) {
	quoted := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' && (i == 0 || !quoted || text[i-1] != '\\'):
			quoted = !quoted
		case c == '=' && !quoted:
			return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:]), true
		}
	}
	return text, "", false
}

// Split cuts a list at the commas outside of quotes and brackets.
func Split(list string) ([]string, error) {
	var values []string
	begin, depth, quote := 0, 0, byte(0)
	for i := range len(list) {
		switch c := list[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth <= 0:
			values = append(values, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %q is not closed", string(quote))
	}
	return append(values, strings.TrimSpace(list[begin:])), nil
}
