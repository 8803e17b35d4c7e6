// SPDX-License-Identifier: Apache-2.0

// Package answers keeps what the outside world has answered the handlers of a run, so that a run that goes back, goes
// on or is repeated gets the same answers and asks nobody again (docs/checkpoints.md, section 8; the bytes:
// docs/format/checkpoint.md).
//
// Guarantee: when Keep returns nil, the record outlives every process of the run, and, where that was asked for, a
// power failure. What Find gives is what was kept, for the same request, or an error that shows both requests. A file
// whose last record was cut short is read up to there; one that is damaged elsewhere is an error that names file and
// byte. Memory is some 100 bytes for each record behind the last checkpoint; the records are in files.
//
//	s, err := answers.New(run, dir)
//	defer s.Close()
//	err = s.KeepIn(ctx, journals) // what Keep keeps outlives this process from then on
//	r, err := s.Find(replication, &answers.Record{Key: key, Name: "solver", Request: request})
//	if r == nil && err == nil { … ask … ; err = s.Keep(replication, record) }
package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
)

// Store has the answers of a run that may be wanted again. Goroutines may share it.
type Store struct {
	// Strict has Find return *MissingError for a call that has no record: for a run that is only repeated. It is set
	// before the first Find.
	Strict bool

	run checkpoint.ID

	mu       sync.Mutex // guards the rest
	scratch  *os.File   // the records, one behind the other
	size     int64      // of scratch
	places   map[int]map[Key]place
	log      *Journals // nil: what is kept ends with this process
	buf      []byte
	mismatch *MismatchError // the first
	first    *Unlike        // the first of these, and of those that are missing where the Store is Strict
}

// place is where a record is in scratch.
type place struct {
	at, size int64
}

// New makes the empty Store of a run. Its temporary file, which has no name, is in dir.
func New(run checkpoint.ID, dir string) (*Store, error) {
	f, err := outfile.Temporary(dir)
	if err != nil {
		return nil, fmt.Errorf("answers: a temporary file for what is answered: %w", outfile.Error(dir, err))
	}
	return &Store{run: run, scratch: f, places: map[int]map[Key]place{}}, nil
}

// Run is the run whose answers they are.
func (s *Store) Run() checkpoint.ID { return s.run }

// Close frees what the Store has. The journals stay.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.scratch.Close()
	if s.log != nil {
		err = errors.Join(err, s.log.close())
	}
	return err
}

// KeepIn has Keep write to journals, too.
func (s *Store) KeepIn(j *Journals) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = j
}

// Any reports whether there are records of a replication, so that it is worth while to look for them.
func (s *Store) Any(replication int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Strict || len(s.places[replication]) > 0
}

// Mismatch is the first mismatch that Find has found; nil: none.
func (s *Store) Mismatch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mismatch == nil {
		return nil
	}
	return s.mismatch
}

// Find looks for the record of a call, of which want has Key, Name and Request. nil: there is none, and the outside is
// to be asked. *MismatchError: there is one for another request; *MissingError: there is none, and Strict.
func (s *Store) Find(replication int, want *Record) (*Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.places[replication][want.Key]
	if !ok {
		if s.Strict {
			s.unlike(replication, want.Key)
			return nil, &MissingError{Replication: replication, Key: want.Key, Name: want.Name}
		}
		return nil, nil
	}
	r, err := s.read(p)
	if err != nil {
		return nil, err
	}
	if r.Name != want.Name || !bytes.Equal(r.Request, want.Request) {
		err := &MismatchError{Replication: replication, Key: want.Key, Recorded: Asked{r.Name, r.Request},
			Found: Asked{want.Name, bytes.Clone(want.Request)}}
		if s.mismatch == nil {
			s.mismatch = err
		}
		s.unlike(replication, want.Key)
		return nil, err
	}
	return r, nil
}

// unlike keeps the first call that isn't as recorded. mu is held.
func (s *Store) unlike(replication int, key Key) {
	if s.first == nil {
		s.first = &Unlike{replication, key}
	}
}

// Unlike is a call of a replication that has no record, or one of another request, where there is to be one.
type Unlike struct {
	Replication int
	Key         Key
}

// Unlike is the first one that Find has found; nil: none.
func (s *Store) Unlike() *Unlike {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// read reads a record of the temporary file. mu is held.
func (s *Store) read(p place) (*Record, error) {
	data := make([]byte, p.size)
	if _, err := s.scratch.ReadAt(data, p.at); err != nil {
		return nil, fmt.Errorf("answers: temporary file: %w", err)
	}
	r, rest, err := Parse(data)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("found %d bytes behind the record", len(rest))
	}
	if err != nil {
		return nil, fmt.Errorf("answers: temporary file: byte %d: %w", p.at, err)
	}
	return r, nil
}

// Keep keeps the record of a call that has none.
func (s *Store) Keep(replication int, r *Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.places[replication][r.Key]; ok {
		return fmt.Errorf("answers: found a second record of %v in replication %d, want one", r.Key, replication)
	}
	s.buf = r.Append(s.buf[:0])
	if s.log != nil {
		if err := s.log.add(replication, r.Epoch, s.buf); err != nil {
			return err
		}
	}
	err := s.file(replication, r.Key, s.buf)
	if cap(s.buf) > keptBytes {
		s.buf = nil
	}
	return err
}

// keptBytes is how much memory is kept for the next record.
const keptBytes = 1 << 20

// file files the bytes of a record. mu is held.
func (s *Store) file(replication int, key Key, record []byte) error {
	if _, err := s.scratch.WriteAt(record, s.size); err != nil {
		return fmt.Errorf("answers: temporary file: %w", outfile.Error("of what is answered", err))
	}
	if s.places[replication] == nil {
		s.places[replication] = map[Key]place{}
	}
	s.places[replication][key] = place{s.size, int64(len(record))}
	s.size += int64(len(record))
	return nil
}

// Load files records that an earlier run has kept: those of data, one behind the other, from an epoch on. A record of a
// call that has one already is left out: it was kept twice.
func (s *Store) Load(replication int, from float64, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := 0; at < len(data); {
		r, rest, err := Parse(data[at:])
		if err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		record := data[at : len(data)-len(rest)]
		at += len(record)
		if _, there := s.places[replication][r.Key]; there || r.Epoch < from {
			continue
		}
		if err := s.file(replication, r.Key, record); err != nil {
			return err
		}
	}
	return nil
}

// Section is the records of a stretch of a replication, for a checkpoint. It may be read while others are kept.
type Section struct {
	s    *Store
	keys []Key // rising
	at   []place
}

// Section is the records before an epoch that aren't in a checkpoint.
func (s *Store) Section(replication int, until float64) *Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	section := &Section{s: s}
	for key := range s.places[replication] {
		if key.Epoch < until {
			section.keys = append(section.keys, key)
		}
	}
	slices.SortFunc(section.keys, Key.Compare)
	for _, key := range section.keys {
		section.at = append(section.at, s.places[replication][key])
	}
	return section
}

// Len is how many records there are.
func (c *Section) Len() int { return len(c.keys) }

// Each calls yield with the bytes of each record and its epoch, rising. record ends with the call.
func (c *Section) Each(yield func(epoch float64, record []byte) error) error {
	var buf []byte
	for i, p := range c.at {
		buf = slices.Grow(buf[:0], int(p.size))[:p.size]
		if _, err := c.s.scratch.ReadAt(buf, p.at); err != nil {
			return fmt.Errorf("answers: temporary file: %w", err)
		}
		if err := yield(c.keys[i].Epoch, buf); err != nil {
			return err
		}
	}
	return nil
}

// Committed says that the records before an epoch are in a checkpoint, which is safe; +Inf: the replication has ended.
// They are forgotten, and journals that have no others are deleted.
func (s *Store) Committed(ctx context.Context, replication int, epoch float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.places[replication] {
		if key.Epoch < epoch {
			delete(s.places[replication], key)
		}
	}
	if math.IsInf(epoch, 1) {
		delete(s.places, replication)
	}
	if s.empty() { // nobody reads the section any more
		s.size = 0
		if err := s.scratch.Truncate(0); err != nil {
			return fmt.Errorf("answers: temporary file: %w", err)
		}
	}
	if s.log == nil {
		return nil
	}
	return s.log.committed(ctx, replication, epoch)
}

func (s *Store) empty() bool {
	for _, places := range s.places {
		if len(places) > 0 {
			return false
		}
	}
	return true
}
