// SPDX-License-Identifier: Apache-2.0

// Package child is what the launcher of a run over machines and the process that joins it to these machines say to each
// other, with both ends: docs/format/child.md. The launcher's end gives the workers of other machines the form that
// those of package machine have.
//
// Guarantee: every packet is checked, with its descriptors, before anything of it is used. Whatever happens to the
// child, each worker's end is reported exactly once: its own, or that the machine or the child was lost. The child ends
// with its launcher, however that ends.
//
//	p, err := child.Start(child.Config{Executable: exe, Args: args, Workers: 8})
//	defer p.Close()
//	set, err := p.Make(plan, input, proceed)
//	defer set.Close()
//	w, err := set.Start(0, machine.Spec{Log: log}) // as of machine.Memory
//
// The process itself finds out by IsChild, and is then all Serve:
//
//	to, err := child.Inherit()
//	err = to.Serve(host)
package child
