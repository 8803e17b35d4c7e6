// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/scenario"

// Kind is the "service" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack}
}
