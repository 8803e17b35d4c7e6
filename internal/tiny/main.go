// SPDX-License-Identifier: Apache-2.0

// Command tiny runs the model that gets into trouble on demand (internal/launch/launchtest), to
// see from outside what a run makes of it.
//
//	go run ./internal/tiny run internal/tiny/trouble.yml --workers 2
//
// Guarantee: it has no model but that one, and all commands of package app.
package main

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

func main() { app.Main(launchtest.Kind()) }
