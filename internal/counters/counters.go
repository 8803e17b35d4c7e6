// SPDX-License-Identifier: Apache-2.0

// Package counters keeps named numbers in shared memory: written by one process,
// readable by any other at any time, also after the writer has died.
//
// Guarantee: setting a counter is one store, without allocation, lock or system call. The writer never reads a
// value back, so a stray write of another process doesn't change what it stores next. A reader checks everything
// that it finds before it uses it; memory that isn't a table of counters is ErrCorrupt. A value is never torn, but
// two values may be of different moments.
//
//	err := counters.Format(mem, []counters.Spec{{"events", counters.Count}})
//	w, err := counters.Open(mem)
//	w.At(0).Set(17)                       // the writer
//	for _, v := range snapshot { … }      // snapshot, err := counters.Read(mem)
package counters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/printable"
)

// Kind is how a counter's 64 bits are to be read.
type Kind uint8

// The kinds.
const (
	Count Kind = 1 // uint64
	Gauge Kind = 2 // float64
)

// Spec names one counter.
type Spec struct {
	Name string // 1 to NameMax printable ASCII characters, unique
	Kind Kind
}

// Layout (docs/format/counters.md).
const (
	magic       = 0x4443_4e54_0000_0001 // "DCNT", version 1
	headerBytes = 64
	entryBytes  = 64
	NameMax     = 48

	offMagic = 0  // u64, stored last
	offCount = 8  // u32
	entName  = 0  // NameMax bytes, zero behind the name
	entKind  = 48 // u8
	entValue = 56 // u64
)

// ErrCorrupt is what every refused table unwraps to.
var ErrCorrupt = errors.New("counters: corrupt")

// ErrUnformatted is an ErrCorrupt: Format hasn't come to its end, and may yet.
var ErrUnformatted = fmt.Errorf("%w: not formatted yet", ErrCorrupt)

// Size is the number of bytes that n counters take.
func Size(n int) int { return headerBytes + n*entryBytes }

// Format writes a table of counters, all zero, into mem, which must be 8-byte aligned. No other process may have
// mapped mem yet.
func Format(mem []byte, specs []Spec) error {
	if len(specs) == 0 || len(mem) < Size(len(specs)) {
		return fmt.Errorf("counters: %d counters in %d bytes, want at least one, and %d bytes", len(specs), len(mem),
			Size(len(specs)))
	}
	seen := make(map[string]bool, len(specs))
	clear(mem[:Size(len(specs))])
	for i, s := range specs {
		if s.Name == "" || len(s.Name) > NameMax || printable.ASCII([]byte(s.Name)) != s.Name || seen[s.Name] ||
			s.Kind != Count && s.Kind != Gauge {
			return fmt.Errorf("counters: counter %d is named %q and of kind %d, want a unique name of 1 to %d "+
				"printable ASCII characters and kind 1 or 2", i, s.Name, s.Kind, NameMax)
		}
		seen[s.Name] = true
		e := entry(mem, i)
		copy(e[entName:], s.Name)
		e[entKind] = byte(s.Kind)
	}
	binary.LittleEndian.PutUint32(mem[offCount:], uint32(len(specs)))
	word, err := wordAt(mem, offMagic)
	if err != nil {
		return err
	}
	// SYNC POINT counters-formatted: a process that reads the magic sees the table.
	word.store(magic)
	return nil
}

func entry(mem []byte, i int) []byte {
	return mem[headerBytes+i*entryBytes : headerBytes+(i+1)*entryBytes : headerBytes+(i+1)*entryBytes]
}

// Set is a table as its writer uses it. One goroutine.
type Set struct{ words []Counter }

// Open checks a table and makes its counters settable.
func Open(mem []byte) (*Set, error) {
	n, err := check(mem)
	if err != nil {
		return nil, err
	}
	s := &Set{words: make([]Counter, n)}
	bits := make([]uint64, n)
	for i := range s.words {
		w, err := wordAt(mem, headerBytes+i*entryBytes+entValue)
		if err != nil {
			return nil, err
		}
		bits[i] = w.load()
		s.words[i] = Counter{w, &bits[i]}
	}
	return s, nil
}

// Watched is one counter of another process's table, for reading.
type Watched struct{ w word }

// Watch checks a table and finds the counter of index i in it.
func Watch(mem []byte, i int) (Watched, error) {
	n, err := check(mem)
	if err != nil {
		return Watched{}, err
	}
	if i < 0 || i >= n {
		return Watched{}, fmt.Errorf("%w: counter %d of %d", ErrCorrupt, i, n)
	}
	w, err := wordAt(mem, headerBytes+i*entryBytes+entValue)
	return Watched{w}, err
}

// Load is the count as it is in memory now; LoadFloat is a gauge.
func (c Watched) Load() uint64 { return c.w.load() }

// LoadFloat is Load for a gauge.
func (c Watched) LoadFloat() float64 { return math.Float64frombits(c.w.load()) }

// At is the counter of index i, in the order of Format.
func (s *Set) At(i int) Counter { return s.words[i] }

// Counter is one number. Its zero value can't be used.
type Counter struct {
	w    word
	bits *uint64 // as last set, in private memory
}

// Set stores a count; SetFloat a gauge.
func (c Counter) Set(v uint64) {
	*c.bits = v
	c.w.store(v)
}

// SetFloat stores a gauge.
func (c Counter) SetFloat(v float64) { c.Set(math.Float64bits(v)) }

// Load is the count as it is in memory now, whoever writes it; LoadFloat is a gauge.
func (c Counter) Load() uint64 { return c.w.load() }

// LoadFloat is Load for a gauge.
func (c Counter) LoadFloat() float64 { return math.Float64frombits(c.Load()) }

// Add adds to a count. There is one writer, so it needs no locked instruction.
func (c Counter) Add(v uint64) { c.Set(*c.bits + v) }

// Word is the counter's own word in shared memory, for a writer on a path where an atomic store for each change
// costs too much. Set and Add must not be used on it.
func (c Counter) Word() *uint64 { return c.w.p }

// Value is one counter as a reader found it.
type Value struct {
	Name  string
	Kind  Kind
	Count uint64  // of a Count
	Gauge float64 // of a Gauge
}

// String is "name value".
func (v Value) String() string {
	if v.Kind == Gauge {
		return fmt.Sprintf("%s %g", v.Name, v.Gauge)
	}
	return fmt.Sprintf("%s %d", v.Name, v.Count)
}

// Read takes all values of a table, in the order of Format. It allocates.
func Read(mem []byte) ([]Value, error) {
	n, err := check(mem)
	if err != nil {
		return nil, err
	}
	values := make([]Value, 0, n)
	for i := range n {
		e := entry(mem, i)
		w, err := wordAt(mem, headerBytes+i*entryBytes+entValue)
		if err != nil {
			return nil, err
		}
		v := Value{Name: printable.ASCII(e[entName : entName+NameMax]), Kind: Kind(e[entKind])}
		switch bits := w.load(); v.Kind {
		case Count:
			v.Count = bits
		case Gauge:
			v.Gauge = math.Float64frombits(bits)
		default:
			return nil, fmt.Errorf("%w: counter %d is of kind %d, want 1 or 2", ErrCorrupt, i, v.Kind)
		}
		values = append(values, v)
	}
	return values, nil
}

// check checks a table against the size of its memory and returns its number of counters.
func check(mem []byte) (int, error) {
	if len(mem) < headerBytes {
		return 0, fmt.Errorf("%w: %d bytes, want at least %d", ErrCorrupt, len(mem), headerBytes)
	}
	w, err := wordAt(mem, offMagic)
	if err != nil {
		return 0, err
	}
	// SYNC POINT counters-formatted: the magic comes before the table.
	switch m := w.load(); m {
	case magic:
	case 0:
		return 0, fmt.Errorf("%w: starts with 0, want %#x", ErrUnformatted, uint64(magic))
	default:
		return 0, fmt.Errorf("%w: starts with %#x, want %#x", ErrCorrupt, m, uint64(magic))
	}
	n := int(binary.LittleEndian.Uint32(mem[offCount:]))
	if n < 1 || n > (len(mem)-headerBytes)/entryBytes {
		return 0, fmt.Errorf("%w: %d counters in %d bytes, want 1 to %d", ErrCorrupt, n, len(mem),
			(len(mem)-headerBytes)/entryBytes)
	}
	return n, nil
}
