// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The park handshake, taken apart into single steps and run in every order there
// is. The machine is that of amd64: each thread has a first-in first-out buffer
// of stores that others don't see yet, reads its own stores from it, and empties
// it before a fence and before a locked instruction is over. Nobody has a
// timeout here, so a lost wake-up is a state in which no step is left, the
// consumer sleeps, and something is published that it hasn't seen.
//
// The steps are those of doorbell.go, in its order. A change there belongs here
// too.

const (
	modelProducers = 2 // at most
	modelBuffer    = 4 // stores in flight, more than any thread here can have
)

// Places in the modelled memory.
const (
	placeWord = modelProducers // after the producers' own counts of what they have published
	places    = modelProducers + 1
)

// Steps of the consumer. Looking takes one step for each producer.
const (
	consumerLook = iota // until there is nothing new
	consumerArm
	consumerFence
	consumerLookAgain
	consumerWait    // the kernel compares the word and puts the thread to sleep, in one step
	consumerAsleep  // only FUTEX_WAKE ends this
	consumerWoken   // Wait compares the word with its token
	consumerDisarm  // loads the word
	consumerDisarm2 // stores it, if it was armed
	consumerDone
)

// Steps of a producer.
const (
	producerPublish = iota // a plain store
	producerFence
	producerLoad  // the word
	producerClear // compare-and-swap
	producerWake
	producerDone
	producerDead
)

// rules is the handshake under test: the real one, or one with a part left out.
type rules struct {
	producers, items int
	deaths           int // producers that may be killed, at any step

	noProducerFence bool
	noConsumerFence bool
	noSecondLook    bool
	noCompare       bool // the kernel would not compare the word before it sleeps
	wakeBeforeClear bool
}

type modelStore struct{ place, value int8 }

// event is one step in words. It is formatted only when somebody wants to read it.
type event struct {
	thread int8 // 0: the consumer
	text   string
	value  int8
}

func (e event) String() string {
	name := "consumer"
	if e.thread > 0 {
		name = fmt.Sprintf("producer %d", e.thread)
	}
	return fmt.Sprintf("%s: %s %d", name, e.text, e.value)
}

type modelThread struct {
	step   int8
	look   int8 // consumer: which producer it looks at next
	found  bool // consumer: this look found something new
	token  int8 // consumer: of the latest arming
	seen   [modelProducers]int8
	item   int8 // producer: items published
	loaded int8 // the word, as loaded last
	diedAt int8
	stores [modelBuffer]modelStore
	queued int8
}

// modelState is one state of the whole machine; thread 0 is the consumer.
type modelState struct {
	memory  [places]int8
	threads [1 + modelProducers]modelThread
	asleep  bool
	deaths  int8
}

func (t *modelThread) put(place, value int8) {
	t.stores[t.queued] = modelStore{place, value}
	t.queued++
}

// read is a load: the thread's own latest store to the place, or the memory.
func (s *modelState) read(thread int, place int8) int8 {
	t := &s.threads[thread]
	for i := t.queued - 1; i >= 0; i-- {
		if t.stores[i].place == place {
			return t.stores[i].value
		}
	}
	return s.memory[place]
}

// next lists what can happen in state s, each with the state that it leads to.
func (r *rules) next(s *modelState, states []modelState, events []event) ([]modelState, []event) {
	add := func(n *modelState, e event) { states, events = append(states, *n), append(events, e) }
	for i := range int8(1 + r.producers) {
		if t := &s.threads[i]; t.queued > 0 {
			n := *s
			nt := &n.threads[i]
			n.memory[t.stores[0].place] = t.stores[0].value
			copy(nt.stores[:], t.stores[1:])
			nt.stores[modelBuffer-1] = modelStore{}
			nt.queued--
			text := "its store becomes visible:"
			if t.stores[0].place == placeWord {
				text = "its store of the word becomes visible:"
			}
			add(&n, event{i, text, t.stores[0].value})
		}
		n := *s
		e := event{thread: i}
		if i == 0 {
			e.text, e.value = r.consume(&n)
		} else {
			e.text, e.value = r.produce(&n, i)
		}
		if e.text != "" {
			add(&n, e)
		}
		if t := &s.threads[i]; i > 0 && int(s.deaths) < r.deaths && t.step < producerDone {
			n = *s
			n.deaths++
			n.threads[i].step, n.threads[i].diedAt = producerDead, t.step
			add(&n, event{i, "is killed at step", t.step})
		}
	}
	return states, events
}

// consume takes the consumer's next step in s; no text: it can't take one.
func (r *rules) consume(s *modelState) (text string, value int8) {
	t := &s.threads[0]
	switch t.step {
	case consumerLook, consumerLookAgain:
		return r.look(s, t)
	case consumerArm:
		t.token += stateStep
		t.put(placeWord, t.token)
		t.step = consumerFence
		if r.noConsumerFence {
			t.step = r.afterFence()
		}
		return "arms with token", t.token
	case consumerFence:
		if t.queued > 0 {
			return "", 0
		}
		t.step = r.afterFence()
		return "fence, with stores in flight:", 0
	case consumerWait:
		if t.queued > 0 { // the kernel takes a lock first
			return "", 0
		}
		if s.memory[placeWord] != t.token && !r.noCompare {
			t.step = consumerDisarm
			return "wait: the word has changed to", s.memory[placeWord]
		}
		t.step, s.asleep = consumerAsleep, true
		return "wait: sleeps on", s.memory[placeWord]
	case consumerAsleep:
		if s.asleep {
			return "", 0
		}
		t.step = consumerWoken
		return "wait: woken with the word at", s.memory[placeWord]
	case consumerWoken:
		t.step = consumerDisarm
		if s.read(0, placeWord) == t.token {
			t.step = consumerWait
		}
		return "compares the word with its token", t.token
	case consumerDisarm:
		t.loaded = s.read(0, placeWord)
		t.step = consumerLook
		if t.loaded&stateArmed != 0 {
			t.step = consumerDisarm2
		}
		return "disarm: loads the word:", t.loaded
	case consumerDisarm2:
		t.put(placeWord, t.token&^stateArmed)
		t.step = consumerLook
		return "disarm: stores the word:", t.token &^ stateArmed
	}
	return "", 0
}

func (r *rules) afterFence() int8 {
	if r.noSecondLook {
		return consumerWait
	}
	return consumerLookAgain
}

// look loads one producer's count.
func (r *rules) look(s *modelState, t *modelThread) (text string, value int8) {
	at := t.look
	if v := s.read(0, at); v != t.seen[at] {
		t.seen[at], t.found = v, true
	}
	value = t.seen[at]
	text = "looks at producer 1, sees"
	if at == 1 {
		text = "looks at producer 2, sees"
	}
	if t.look++; int(t.look) < r.producers {
		return text, value
	}
	found := t.found
	t.look, t.found = 0, false
	all := true
	for _, v := range t.seen[:r.producers] {
		all = all && int(v) == r.items
	}
	switch {
	case all:
		t.step = consumerDone
	case t.step == consumerLook && !found:
		t.step = consumerArm
	case t.step == consumerLookAgain && !found:
		t.step = consumerWait
	case t.step == consumerLookAgain:
		t.step = consumerDisarm
	}
	return text, value
}

// produce takes producer i's next step in s; no text: it can't take one.
func (r *rules) produce(s *modelState, i int8) (text string, value int8) {
	t := &s.threads[i]
	again := func() {
		t.step = producerPublish
		if int(t.item) == r.items {
			t.step = producerDone
		}
	}
	switch t.step {
	case producerPublish:
		t.item++
		t.put(i-1, t.item)
		t.step = producerFence
		if r.noProducerFence {
			t.step = producerLoad
		}
		return "publishes item", t.item
	case producerFence:
		if t.queued > 0 {
			return "", 0
		}
		t.step = producerLoad
		return "fence, with stores in flight:", 0
	case producerLoad:
		t.loaded = s.read(int(i), placeWord)
		switch {
		case t.loaded&stateArmed == 0:
			again()
		case r.wakeBeforeClear:
			t.step = producerWake
		default:
			t.step = producerClear
		}
		return "loads the word:", t.loaded
	case producerClear:
		if t.queued > 0 { // a locked instruction
			return "", 0
		}
		swapped := s.memory[placeWord] == t.loaded
		if swapped {
			s.memory[placeWord] = t.loaded &^ stateArmed
		}
		if swapped && !r.wakeBeforeClear {
			t.step = producerWake
		} else {
			again()
		}
		return "clears the armed bit, leaving", s.memory[placeWord]
	case producerWake:
		if t.queued > 0 {
			return "", 0
		}
		s.asleep = false
		if r.wakeBeforeClear {
			t.step = producerClear
		} else {
			again()
		}
		return "FUTEX_WAKE with the word at", s.memory[placeWord]
	}
	return "", 0
}

// explore visits every state that can be reached and returns how many there are,
// and those in which nothing can happen any more and lost says yes, with the way
// to the first of them.
func (r *rules) explore(lost func(*modelState) bool) (states, losses int, way []string) {
	type step struct {
		from int32
		event
	}
	start := modelState{}
	start.threads[0].token = stateArmed
	index := map[modelState]struct{}{start: {}}
	queue, steps := []modelState{start}, []step{{from: -1}}
	var next []modelState
	var events []event
	for at := 0; at < len(queue); at++ {
		s := queue[at]
		next, events = r.next(&s, next[:0], events[:0])
		if len(next) == 0 && lost(&s) {
			if losses++; losses == 1 {
				for i := int32(at); i > 0; i = steps[i].from {
					way = append(way, steps[i].String())
				}
				slices.Reverse(way)
			}
		}
		for i := range next {
			if _, old := index[next[i]]; old {
				continue
			}
			index[next[i]] = struct{}{}
			queue, steps = append(queue, next[i]), append(steps, step{int32(at), events[i]})
		}
	}
	return len(queue), losses, way
}

// missed reports whether the consumer has not seen all that is published.
func missed(s *modelState) bool {
	for i, v := range s.threads[0].seen {
		if s.memory[i] != v {
			return true
		}
	}
	return false
}

// In no order of the steps is a wake-up lost: every run ends with the consumer
// having seen everything.
func TestHandshakeModel(t *testing.T) {
	for _, r := range []rules{
		{producers: 1, items: 1},
		{producers: 1, items: 4},
		{producers: 2, items: 1},
		{producers: 2, items: 2},
	} {
		states, losses, way := r.explore(func(s *modelState) bool { return s.threads[0].step != consumerDone })
		if losses != 0 {
			t.Errorf("%+v: %d lost wake-ups, the first one:\n%s", r, losses, strings.Join(way, "\n"))
		}
		t.Logf("%d producers, %d items each: %d states, none of them stuck", r.producers, r.items, states)
	}
}

// The check can fail: each part of the handshake is needed, and without it the
// same search finds the lost wake-up.
func TestHandshakeModelFindsFaults(t *testing.T) {
	for what, r := range map[string]rules{
		"no fence in Ring":       {producers: 1, items: 1, noProducerFence: true},
		"no fence in Arm":        {producers: 1, items: 1, noConsumerFence: true},
		"no second look":         {producers: 1, items: 1, noSecondLook: true},
		"no compare in the wait": {producers: 1, items: 1, noCompare: true},
		"wake before clear":      {producers: 1, items: 1, wakeBeforeClear: true},
	} {
		states, losses, way := r.explore(missed)
		if losses == 0 {
			t.Errorf("%s: no lost wake-up in %d states", what, states)
			continue
		}
		t.Logf("%s: %d lost wake-ups in %d states, the shortest:\n\t%s", what, losses, states,
			strings.Join(way, "\n\t"))
	}
}

// A killed producer can take one wake-up with it, but only if it dies between its
// publish and the end of its Ring. Then the consumer's timeout has to do.
func TestHandshakeModelDeath(t *testing.T) {
	r := rules{producers: 2, items: 1, deaths: 1}
	found := false
	states, losses, way := r.explore(func(s *modelState) bool {
		if !missed(s) {
			return false
		}
		for _, p := range s.threads[1:] {
			if p.step == producerDead && p.diedAt > producerPublish {
				found = true
				return false
			}
		}
		return true
	})
	if losses != 0 {
		t.Errorf("%d wake-ups lost through nobody's death, the first one:\n%s", losses, strings.Join(way, "\n"))
	}
	if !found {
		t.Errorf("no death costs a wake-up in %d states: the model doesn't kill", states)
	}
}
