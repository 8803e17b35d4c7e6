// SPDX-License-Identifier: Apache-2.0

package launchtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// asking is what nodes ask the outside world, once for each simulated second:
//
//	asking:
//	  file: /tmp/asked   # gets a line for each time that the outside is asked: the key and what is asked
//	  ms: 5              # wall time that an answer takes
//	  random: false      # answers differ whenever they are asked for; else they follow from the request
//	  twice: 0           # a seed that is part of each request: another one gives other requests
type asking struct {
	file   string // "": nothing is asked
	ms     int
	random bool
	twice  int
}

func (a *asking) read(v scenario.Value) {
	if !v.Present() {
		return
	}
	s := v.Section("file", "ms", "random", "twice")
	a.file = s.Field("file").Text()
	a.ms = s.Field("ms").IntOr(0, scenario.Between(0, 3_600_000))
	a.random = s.Field("random").BoolOr(false)
	a.twice = s.Field("twice").IntOr(0, scenario.Between(0, 1000))
}

// Externals implements scenario.Asker.
func (t *Tiny) Externals() []external.External {
	if t.asking.file == "" {
		return nil
	}
	return []external.External{{Name: "oracle", Ask: t.asking.ask, Policy: external.Policy{NeedsKey: true}}}
}

// ask is the outside.
func (a *asking) ask(ctx context.Context, call *external.Call) ([]byte, error) {
	f, err := os.OpenFile(a.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", call.Key(), call.Request); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(a.ms) * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sum := sha256.Sum256(call.Request)
	if a.random {
		rand.Read(sum[:])
	}
	if sum[8] < 32 {
		return nil, fmt.Errorf("the oracle is silent (%x)", sum[:4])
	}
	return sum[:8], nil
}

// askOutside asks once for each simulated second that has begun.
func (h *handler) askOutside(p *node.Simproc) error {
	second := math.Floor(p.Now()) + 1
	if h.tiny.asking.file == "" || second <= h.asked {
		return nil
	}
	h.asked = second
	for range 1 + p.NodeIndex()%2 {
		answer, err := p.External(h.oracle, fmt.Appendf(nil, "%s in replication %d at %v, behind %d: %d", p.Name(),
			p.Replication(), p.Now(), h.handled, h.tiny.asking.twice))
		if silent := (*node.ExternalError)(nil); errors.As(err, &silent) {
			h.handled += 100
			continue
		}
		if err != nil {
			return err
		}
		h.handled += binary.LittleEndian.Uint64(answer) % 10
	}
	return nil
}
