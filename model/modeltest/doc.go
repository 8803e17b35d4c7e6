// SPDX-License-Identifier: Apache-2.0

// Package modeltest is for the tests of models: it runs a scenario over several engines
// of one goroutine, compares spreads, and holds files that break a rule against the
// text that says so.
//
// Guarantee: it uses what package node gives to everybody and nothing else, so a model
// that passes here depends on no transport; and it has no goroutine or clock, so a test
// that fails fails again.
//
//	modeltest.ComparePlacements(t, scenario, 1)
//	modeltest.ResumeEverywhere(t, scenario, 1) // where all handlers are node.Savers
//	modeltest.DamagedStates(t, scenario, 1)
//	results := modeltest.Summarize(t, scenario, 1, 20).(*pond.Results)
//	modeltest.Invalid(t, pond.Kind(), "testdata/invalid", *update)
package modeltest
