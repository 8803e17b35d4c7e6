// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/scenario"

// Kind is the "service" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind { return scenario.Kind{Name: KindName, Load: load} }

// load reads the file and makes the model.
func load(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	spec, err := Load(doc, opt)
	if err != nil {
		return nil, err
	}
	m, err := New(spec)
	if err != nil {
		return nil, err
	}
	return m, nil
}
