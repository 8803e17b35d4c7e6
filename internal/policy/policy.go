// SPDX-License-Identifier: Apache-2.0

// Package policy holds the rules that a compiler doesn't: which package may import which, where unsafe and
// system calls may stand, how long functions and lines may be, what the documents say about packages and words.
//
// Guarantee: its tests read every Go file of the module and fail with file, line and the reason for the rule. What
// may break a rule stands in the list exceptions, a line each, with the reason; a line that excuses nothing any more
// fails, as does an allowed import that nobody uses and a rule about a package that doesn't exist. A small tree in
// testdata breaks each rule, so that no check can pass because it doesn't look.
//
//	go test ./internal/policy
package policy
