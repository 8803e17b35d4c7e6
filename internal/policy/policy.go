// SPDX-License-Identifier: Apache-2.0

// Package policy holds the rules of the house that a compiler doesn't: which room may
// import which, where unsafe and system calls may stand, how long a function may be.
//
// Guarantee: its tests read every Go file of the module and fail with file, line and
// the reason for the rule. There is no list of exceptions.
//
//	go test ./internal/policy
package policy
