// SPDX-License-Identifier: Apache-2.0

// Package docs keeps the documents true: its test runs the commands that they show.
//
// Guarantee: every command in a code block or a table of README.md and docs/*.md either runs
// in the test, in a copy of the tree as a person has it after cloning, or matches a rule that
// says why it doesn't; a command that no rule knows fails the test. The output that README.md
// shows is what is printed.
//
//	go test ./internal/docs
package docs
