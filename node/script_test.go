// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/script"
)

// queueMachine answers the commands of testdata/queue: see any file there.
type queueMachine struct {
	q       *aloneQueue
	ids     map[string]SimprocID
	numbers map[SimprocID]uint64
}

func (m *queueMachine) do(words []string) string {
	var answer string
	var err error
	switch words[0] {
	case "queue":
		m.make(words[1], words[2:])
	case "event":
		id := m.ids[words[1]]
		n := m.numbers[id]
		if len(words) > 3 {
			n, _ = strconv.ParseUint(strings.TrimPrefix(words[3], "#"), 10, 64)
		}
		m.numbers[id] = n + 1
		err = m.q.Push(&envelope.Event{Epoch: number(words[2]), Sender: uint32(id), Number: n})
	case "promise":
		err = m.q.Promise(&envelope.Promise{Sender: uint32(m.ids[words[1]]), Seqnr: uint64(number(words[2])),
			Epoch: number(words[3]), NumEvents: uint64(number(words[4]))})
	case "next":
		e, ok := m.q.Next()
		answer = fmt.Sprintf("next epoch %v, complete %v, bound %v", e, ok, m.q.Bound().Epoch)
	case "waiting":
		if w, ok := m.q.WaitingFor(); ok {
			return "waits for " + w.String()
		}
		return "waits for nobody"
	case "pop":
		return m.pop()
	default:
		panic("unknown command " + words[0])
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if answer == "" {
		answer = "ok"
	}
	return answer
}

func (m *queueMachine) make(target string, senders []string) {
	m.ids, m.numbers = map[string]SimprocID{}, map[SimprocID]uint64{}
	preds := map[SimprocID]string{}
	for i, s := range senders {
		m.ids[s] = SimprocID(i + 1)
		preds[SimprocID(i+1)] = s
	}
	m.ids["stranger"] = 99
	m.q = newAloneQueue(target, preds)
}

// pop hands out complete epochs until one is held.
func (m *queueMachine) pop() string {
	var b strings.Builder
	for {
		if _, ok := m.q.Next(); !ok {
			break
		}
		events := m.q.Pop(nil)
		fmt.Fprintf(&b, "epoch %v:", events[0].Epoch)
		for _, ev := range events {
			fmt.Fprintf(&b, " %s#%d", m.name(ev.Sender), ev.Number)
		}
		b.WriteString("\n")
		m.q.Release()
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func (m *queueMachine) name(id SimprocID) string {
	for n, i := range m.ids {
		if i == id {
			return n
		}
	}
	return "?"
}

func number(s string) float64 {
	if s == "inf" {
		return math.Inf(1)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return f
}

func TestQueueScripts(t *testing.T) {
	script.Run(t, "testdata/queue/*.txt", func(*testing.T) script.Machine { return (&queueMachine{}).do })
}
