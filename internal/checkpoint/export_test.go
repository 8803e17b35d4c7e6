// SPDX-License-Identifier: Apache-2.0

package checkpoint

// Name is the file of a manifest.
func (p Point) Name() string { return p.name() }

// Name is the file of a pack.
func (p Pack) Name() string { return p.name() }
