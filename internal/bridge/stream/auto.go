// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/session"
)

const (
	// SampleBytes of the messages that a connection sends first are what [Auto] looks at.
	SampleBytes   = 4 << 20
	sampleWaiting = 16 // messages; more pass without being looked at
)

// Choice is what [Auto] has chosen, and from what.
type Choice struct {
	Address string
	Chosen  Compression
	Rate    float64               // bytes a second that the way carries
	Share   [compressions]float64 // what is left of a byte
	Cost    [compressions]float64 // seconds to compress a byte
}

// seconds is what a byte takes.
func (c *Choice) seconds(x Compression) float64 { return c.Cost[x] + c.Share[x]/c.Rate }

// ChoicePrefix begins the text of a Choice.
const ChoicePrefix = "compression to "

// String says what was chosen and why.
func (c Choice) String() string {
	text := fmt.Sprintf(ChoicePrefix+"%s: %v, of", c.Address, c.Chosen)
	for x := range Auto {
		text += fmt.Sprintf(" %v %.3g ms", x, 1e3*(1<<20)*c.seconds(x))
		if x > None {
			text += fmt.Sprintf(" (%.3g of that to make %.0f %% of it)", 1e3*(1<<20)*c.Cost[x], 100*c.Share[x])
		}
		text += ","
	}
	return text + fmt.Sprintf(" a MiB at %.3g MB/s", c.Rate/1e6)
}

// compression is that of the next connection. With Auto, none is used, and a sample is taken.
func (d *Dialer) compression() Compression {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return d.chosen
	}
	return d.Compress
}

// choose ends the sample of a connection. If another compression is better than none, the connection is closed: the
// session makes another one, of that compression, and loses nothing.
func (d *Dialer) choose(c *dialled, choice Choice) {
	choice.Address, choice.Rate = d.Address, d.Rate()
	for x := range Auto {
		if choice.seconds(x) < choice.seconds(choice.Chosen) {
			choice.Chosen = x
		}
	}
	d.mu.Lock()
	d.chosen, d.settled = choice.Chosen, true
	d.mu.Unlock()
	if d.Chosen != nil {
		d.Chosen(choice)
	}
	if choice.Chosen != None {
		c.Close()
	}
}

// sample compresses copies of what a connection sends, in a goroutine of its own.
type sample struct {
	messages chan *session.Buffer
	rate     func() float64
	mu       sync.Mutex
	ended    bool
}

func (d *Dialer) newSample(c *dialled) *sample {
	s := &sample{messages: make(chan *session.Buffer, sampleWaiting), rate: d.Rate}
	go s.run(func(choice Choice) { d.choose(c, choice) })
	return s
}

// offer gives it a message, if it isn't busy with enough of them, and it is known what the way carries: what finds that
// out isn't what it is there to carry.
func (s *sample) offer(b *session.Buffer) {
	if s.rate() <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	b.Ref()
	select {
	case s.messages <- b:
	default:
		b.Free()
	}
}

// end ends the sample.
func (s *sample) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.messages)
	}
}

// run compresses messages until there are enough of them, or the sample is ended.
func (s *sample) run(enough func(Choice)) {
	var blocks [compressions]block
	for _, x := range []Compression{S2, Zstd} {
		b, err := newBlock(x)
		if err != nil { // wrong options, which no input can cause
			panic(err)
		}
		blocks[x] = b
	}
	var seconds, left [compressions]float64
	var out []byte
	sum := 0
	for b := range s.messages {
		if sum < SampleBytes {
			sum += len(b.Bytes())
			for _, x := range []Compression{S2, Zstd} {
				began := time.Now()
				out = mark(blocks[x], out[:0], b.Bytes())
				seconds[x] += time.Since(began).Seconds()
				left[x] += float64(len(out))
			}
		}
		b.Free()
		if sum >= SampleBytes {
			s.end()
		}
	}
	if sum < SampleBytes {
		return // the connection has ended before
	}
	c := Choice{}
	for x := range Auto {
		c.Cost[x], c.Share[x] = seconds[x]/float64(sum), left[x]/float64(sum)
	}
	c.Share[None] = 1
	enough(c)
}
