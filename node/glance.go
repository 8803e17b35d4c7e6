// SPDX-License-Identifier: Apache-2.0

package node

// Glance reports, roughly, what the Engine is doing: the simproc whose handler is being
// called, empty for none, the epoch of that call, and how many handlers have been called.
//
// It is the one method that another goroutine may call, while a handler doesn't return:
// it reads single words that the Engine's goroutine writes, and Go promises that each
// read finds a value that was written (The Go Memory Model, 2022, "Implementation
// Restrictions"). They may be of different moments. What it returns is for people.
//
//go:norace
func (e *Engine) Glance() (handler string, epoch float64, activations uint64) {
	activations = e.stats.Activations
	if p := e.current; p != nil {
		return p.Name(), p.now, activations
	}
	return "", 0, activations
}
