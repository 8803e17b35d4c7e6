// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/tracefile"
)

// The journal of activations of a run with checkpoints: as with its trace, each checkpoint has all calls before it. The
// workers have made chunks of them, which go into the store as they are.

// keepsCalls reports whether workers keep a journal of activations.
func (l *Launch) keepsCalls() bool {
	return l.cfg.Replay != nil || l.cfg.Checkpoint != nil && l.cfg.Checkpoint.Repo.Run().Replayable
}

// writtenChunk is a chunk in a worker's file.
type writtenChunk struct {
	checkpoint.Chunk
	file *os.File
}

// callChunks are those of the journal of activations in a section of a run with so many nodes.
func callChunks(section *tracefile.Section, nodes int64) (list []writtenChunk, err error) {
	err = section.EachBlob(func(file *os.File, at int64, bytes int) error {
		var row [checkpoint.RowBytes]byte
		if _, err := file.ReadAt(row[:min(bytes, len(row))], at); err != nil {
			return fmt.Errorf("journal of activations: %d bytes at %d: %w", bytes, at, err)
		}
		c, err := checkpoint.ParseBundled(&row, nodes)
		if err != nil {
			return fmt.Errorf("journal of activations: %w", err)
		}
		_, ok := calls.Count(c.Raw)
		ok = ok && c.Kind == checkpoint.Hashes || c.Kind == checkpoint.Layout
		if !ok || c.Size != int64(bytes-len(row)) {
			return fmt.Errorf("journal of activations: found %v in %d bytes, want calls in all of them", &c, bytes)
		}
		c.At = at + checkpoint.RowBytes
		list = append(list, writtenChunk{c, file})
		return nil
	})
	return list, err
}

// callsIn is how many calls a chunk of a journal has.
func callsIn(c *checkpoint.Chunk) uint64 {
	if c.Kind != checkpoint.Hashes {
		return 0
	}
	n, _ := calls.Count(c.Raw)
	return uint64(n)
}

// journalOf are the chunks of a checkpoint's journal, rising, with the layouts that they refer to.
func journalOf(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) (list []checkpoint.Chunk,
	err error) {
	list, err = chunksOf(ctx, repo, m, checkpoint.Hashes)
	if err != nil {
		return nil, err
	}
	layouts, err := chunksOf(ctx, repo, m, checkpoint.Layout)
	if err == nil && len(list) > 0 && len(layouts) == 0 {
		err = fmt.Errorf("%v: found a journal of activations of version 1, want version 2: another version of disco "+
			"has recorded it; record it again (run FILE --checkpoint-to DIR --replayable)", repo)
	}
	return append(list, layouts...), err
}

// addCalls has a draft take over a section of the journal, and all chunks before it. A journal that doesn't have as
// many calls as were made is an error: a worker couldn't write all.
func (s *store) addCalls(draft *checkpoint.Draft, before []checkpoint.Chunk, section *tracefile.Section,
	activations uint64) error {
	run := s.repo.Run()
	if !run.Replayable {
		return nil
	}
	list, err := callChunks(section, run.Nodes)
	if err != nil {
		return err
	}
	sum, layouts := uint64(0), map[checkpoint.Digest]bool{}
	for i := range before {
		sum += callsIn(&before[i])
		layouts[before[i].Digest] = true
		draft.Keep(before[i])
	}
	for i := range list {
		c := &list[i]
		if sum += callsIn(&c.Chunk); c.Kind == checkpoint.Layout {
			if layouts[c.Digest] {
				continue // nodes are as they were before
			}
			layouts[c.Digest] = true
		}
		info, err := c.file.Stat()
		if err == nil {
			err = draft.Add(io.ReaderAt(c.file), info.Size(), []checkpoint.Chunk{c.Chunk})
		}
		if err != nil {
			return fmt.Errorf("journal of activations: %w", err)
		}
	}
	if want := activations - s.before; sum != want {
		return fmt.Errorf("the journal of activations has %d calls, want %d: a worker couldn't write all of it", sum,
			want)
	}
	return nil
}

// callsBefore is how many calls a run has before its begin, which no journal of it has: those of the run whose
// checkpoint it goes on from, under other settings.
func callsBefore(ctx context.Context, repo *checkpoint.Repo) (uint64, error) {
	if repo.Run().From == nil || !repo.Run().Replayable {
		return 0, nil
	}
	begin, err := beginOf(ctx, repo)
	if err != nil {
		return 0, err
	}
	return begin.Activations, nil
}
