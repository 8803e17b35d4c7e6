// SPDX-License-Identifier: Apache-2.0

package checkpoint

// SetStep has f called in front of each step of writing; its error ends the step.
func (d *Dir) SetStep(f func(step, name string) error) { d.step = f }

// Name is the file of a manifest.
func (p Point) Name() string { return p.name() }

// Name is the file of a pack.
func (p Pack) Name() string { return p.name() }
