// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"io"

	"github.com/disco-sim/disco/node"
)

// WordsMax is how much a journal keeps of one event's data, or of what one activation did, in bytes.
const WordsMax = 32 << 10

// journalMark is set in the class of chunks whose records have words.
const journalMark = 1 << 31

// lengthBytes is the length of a record's words, behind the record.
const lengthBytes = 4

// Selection is what of a run a journal has: simprocs from First to before End, epochs from From to Until.
type Selection struct {
	First, End  node.SimprocID
	From, Until float64

	// Sends has nothing recorded but how many events were sent.
	Sends bool

	// Eager has every record written at once, which is a system call for each: so it is there whatever ends the worker.
	Eager bool
}

// Journal is a Writer whose records have words, and a node.Journal. It has what a Selection says and nothing else.
type Journal struct {
	w    Writer
	want Selection
}

var _ node.SentCounter = (*Journal)(nil)

// NewJournal makes a Journal that writes to w.
func NewJournal(w io.Writer, want Selection) *Journal {
	return &Journal{w: Writer{w: w, mark: journalMark}, want: want}
}

// Wants implements node.Journal.
func (j *Journal) Wants(p node.SimprocID) bool { return p >= j.want.First && p < j.want.End }

// Event implements node.Tracer.
func (j *Journal) Event(class int, level uint32, target node.SimprocID, ev *node.Event, hash uint64) {
	j.add(class, &Record{Epoch: ev.Epoch, Level: level, Target: target, Sender: ev.Sender, Size: uint32(len(ev.Data)),
		Number: ev.Number, Hash: hash}, ev.Data)
}

// Wakeup implements node.Tracer.
func (j *Journal) Wakeup(class int, level uint32, target node.SimprocID, epoch float64) {
	j.add(class, &Record{Epoch: epoch, Level: level, Target: target, Sender: Wakeup}, nil)
}

// Did implements node.Journal.
func (j *Journal) Did(class int, level uint32, target node.SimprocID, epoch float64, words []byte) {
	j.add(class, &Record{Epoch: epoch, Level: level, Target: target, Sender: Wakeup, Number: DidNumber}, words)
}

// Sent implements node.SentCounter.
func (j *Journal) Sent(class int, level uint32, target node.SimprocID, epoch float64, count uint64) {
	if j.want.Sends {
		j.add(class, &Record{Epoch: epoch, Level: level, Target: target, Sender: Wakeup, Number: SentNumber,
			Hash: count}, nil)
	}
}

func (j *Journal) add(class int, r *Record, words []byte) {
	if !j.Wants(r.Target) || r.Epoch < j.want.From || r.Epoch > j.want.Until || j.want.Sends != r.Sent() {
		return
	}
	words = words[:min(len(words), WordsMax)]
	if class < len(j.w.chunks) && len(j.w.chunks[class])+RecordBytes+lengthBytes+len(words) > chunkHeader+chunkMax {
		j.w.flush(class)
	}
	j.w.put(class, r)
	c := binary.LittleEndian.AppendUint32(j.w.chunks[class], uint32(len(words)))
	j.w.chunks[class] = append(c, words...)
	if j.want.Eager {
		j.w.flush(class)
	}
}

// Flush writes what is left and returns the first error of any write.
func (j *Journal) Flush() error { return j.w.Flush() }

// words takes the words behind a record; false where they aren't all there.
func (s *stream) words() (string, bool) {
	rest := s.buf[s.at:]
	if len(rest) < lengthBytes {
		return "", false
	}
	n, rest := binary.LittleEndian.Uint32(rest), rest[lengthBytes:]
	if uint64(n) > uint64(len(rest)) {
		return "", false
	}
	s.at += lengthBytes + int(n)
	return string(rest[:n]), true
}
