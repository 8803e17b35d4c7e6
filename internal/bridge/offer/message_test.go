// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/wire/wiretest"
)

// examples is a message of each type with all of its fields, within their bounds.
func examples(t testing.TB) []*Message {
	o := &Offer{Disco: "v1", Cluster: "disco", Name: "shop", Machine: 3, Slots: 2, Most: 3}
	wiretest.Fill(t, &o.Program)
	wiretest.Fill(t, &o.Bridge)
	wiretest.Fill(t, &o.Run)
	wiretest.Fill(t, &o.Token)
	instance := [16]byte{1, 15: 2}
	all := []*Message{
		{Type: TypeOffer, Offer: o},
		{Type: TypeAccepted, Accepted: &Accepted{"h1", instance, 8, 1 << 30, 2, 1}},
		{Type: TypeRefused, Refused: &Refused{CodeSlots, "two\nlines", instance}},
		{Type: TypeBegin, Begin: &Begin{[]Peer{{0, "a", "a:1"}, {3, "b", "b:1"}}, time.Second, time.Second,
			time.Minute, 3}},
		{Type: TypeGo}, {Type: TypeDone},
		{Type: TypeQuit, Reason: &Reason{true, "why"}},
		{Type: TypeContact, Contact: &Contact{-1, ContactUnreachable, time.Second, 9.25,
			"why"}},
		{Type: TypeEnded, Reason: &Reason{true, "how"}},
		{Type: TypeStatus, Status: &Status{"v1", "disco", "h1", instance, o.Program, o.Bridge, 4, 2, 8, 1 << 30, 0.25,
			[]RunStatus{{"shop", o.Run, 2, "10.0.0.1:4711", 90 * 24 * time.Hour, "h2 for 2s"}}, 1, 2}},
		{Type: TypeOrder, Order: &Order{*o, "h1", "tls", 2}},
		{Type: TypeMeasure, Measure: &Measure{Machine: 3}},
		{Type: TypeMeasured, Measure: &Measure{3, time.Millisecond, 1e-9}},
		{Type: TypeNote, Note: &Note{"what"}}, {Type: TypeKeep, Keep: &Keep{2}},
	}
	if len(all) != int(typeEnd)-1 {
		t.Fatalf("%d examples of %d types", len(all), typeEnd-1)
	}
	return all
}

// TestMessages: each message is read as it was written, over a stream, too, and no part of one is a message.
func TestMessages(t *testing.T) {
	var way bytes.Buffer
	for _, m := range examples(t) {
		b, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		wiretest.Truncated(t, b, "offer: ", func(b []byte) error { _, err := Parse(b); return err })
		if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v: %+v, %v", m.Type, got, err)
		}
		if _, err := Parse(append(b, 0)); err == nil {
			t.Errorf("%v: a byte behind it is taken", m.Type)
		}
		if err := Write(&way, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range examples(t) {
		if got, err := Read(&way); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v: %+v, %v", m.Type, got, err)
		}
	}
	if _, err := Read(&way); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if _, err := Read(strings.NewReader("\x08\x00\x00\x00\x01")); err == nil || err == io.EOF {
		t.Errorf("cut short: %v", err)
	}
	if _, err := Read(strings.NewReader("\x01\x00\x01\x00")); err == nil || !strings.Contains(err.Error(), "65537") {
		t.Errorf("too long: %v", err)
	}
}

// TestBounds: no field is taken beyond what docs/format/offer.md allows, neither when written nor when read.
func TestBounds(t *testing.T) {
	long := strings.Repeat("x", NameBytesMax+1)
	for want, m := range map[string]*Message{
		"name of the run: found 0 bytes":    {Type: TypeOffer, Offer: &Offer{Disco: "v", Cluster: "c"}},
		"version of disco: found 256 bytes": {Type: TypeOffer, Offer: &Offer{Disco: long}},
		"cluster: found \"a\\nb\"":          {Type: TypeOffer, Offer: &Offer{Disco: "v", Cluster: "a\nb"}},
		"cluster: found \"\\xff\"":          {Type: TypeOffer, Offer: &Offer{Disco: "v", Cluster: "\xff"}},
		"machine: found 64, want 0 to 63": {Type: TypeOffer, Offer: &Offer{"v", "c", [32]byte{}, [32]byte{},
			[16]byte{}, [32]byte{}, "n", 64, 1, 1}},
		"slots: found 65, want 0 to 64": {Type: TypeOffer, Offer: &Offer{"v", "c", [32]byte{}, [32]byte{},
			[16]byte{}, [32]byte{}, "n", 1, 65, 1}},
		"slots at most: found 0, want 1 to 64": {Type: TypeOffer, Offer: &Offer{Disco: "v", Cluster: "c", Name: "n"}},
		"processors: found 0":                  {Type: TypeAccepted, Accepted: &Accepted{Name: "h"}},
		"reason: found 0, want 1 to 9":         {Type: TypeRefused, Refused: &Refused{}},
		"found 0 machines, want 1 to 64":       {Type: TypeBegin, Begin: &Begin{}},
		"found machine 1 behind machine 1": {Type: TypeBegin, Begin: &Begin{Peers: []Peer{{1, "a", "a"}, {1, "b",
			"b"}}}},
		"peer timeout: found 1000000": {Type: TypeBegin, Begin: &Begin{[]Peer{{1, "a", "a"}}, 1e9, 1e6,
			1e9, 0}},
		"reconnect window: found 100000000000000": {Type: TypeBegin, Begin: &Begin{[]Peer{{1, "a", "a"}}, 1e9, 1e9,
			1e14, 0}},
		"compression: found 4, want 0 to 3": {Type: TypeBegin, Begin: &Begin{[]Peer{{1, "a", "a"}}, 1e9, 1e9, 1e9, 4}},
		"seconds per byte: found -1":        {Type: TypeMeasured, Measure: &Measure{1, 0, -1}},
		"round trip: found -1":              {Type: TypeMeasured, Measure: &Measure{1, -1, 0}},
		"note: found 0 bytes":               {Type: TypeNote, Note: &Note{}},
		"machine: found -2, want -1 to 63":  {Type: TypeContact, Contact: &Contact{Machine: -2}},
		"state: found 5, want 1 to 4":       {Type: TypeContact, Contact: &Contact{State: 5}},
		"silence: found -1":                 {Type: TypeContact, Contact: &Contact{State: ContactUp, For: -1}},
		"phi: found -1":                     {Type: TypeContact, Contact: &Contact{State: ContactUp, Phi: -1}},
		"phi: found 2e+06":                  {Type: TypeContact, Contact: &Contact{State: ContactUp, Phi: 2e6}},
		"unreachable machines: found 256 bytes": {Type: TypeStatus, Status: &Status{Disco: "v", Cluster: "c", Name: "h",
			Slots: 1, Processors: 1, Runs: []RunStatus{{Name: "r", Slots: 1, From: "f", Unreachable: long}}}},
		"text: found 4097 bytes": {Type: TypeEnded, Reason: &Reason{Text: strings.Repeat("x",
			TextBytesMax+1)}},
		"free slots: found -1": {Type: TypeStatus, Status: &Status{Disco: "v", Cluster: "c", Name: "h", Slots: 1,
			Free: -1}},
		"found 65 runs, want at most 64": {Type: TypeStatus, Status: &Status{Disco: "v", Cluster: "c", Name: "h",
			Slots:      1,
			Processors: 1, Runs: manyRuns(65)}},
		"insecure: found 3":                {Type: TypeOrder, Order: &Order{*examples(t)[0].Offer, "h", "", 3}},
		"found no such type, want 1 to 15": {Type: typeEnd},
		"it has no body":                   {Type: TypeOffer},
	} {
		if _, err := Append(nil, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", m.Type, err, want)
		}
	}
	b, _ := Append(nil, &Message{Type: TypeContact, Contact: &Contact{Machine: 5, State: ContactInterrupted}})
	b[headBytes] = 64
	if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), "machine: found 64, want -1 to 63") {
		t.Errorf("read: %v", err)
	}
	for _, other := range []uint32{1, 7} {
		binary.LittleEndian.PutUint32(b, other)
		want := fmt.Sprintf("found version %d of the messages, want 2: use one build of disco on all machines", other)
		if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another version: %v", err)
		}
	}
}

func manyRuns(n int) []RunStatus {
	all := make([]RunStatus, n)
	for i := range all {
		all[i] = RunStatus{Name: "r", Slots: 1, From: "f"}
	}
	return all
}

// TestLargest: the largest status fits a message.
func TestLargest(t *testing.T) {
	long := strings.Repeat("x", NameBytesMax)
	s := &Status{Disco: long, Cluster: long, Name: long, Slots: SlotsMax, Processors: 1, Runs: manyRuns(SlotsMax)}
	for i := range s.Runs {
		s.Runs[i].Name, s.Runs[i].From, s.Runs[i].Unreachable = long, long, long
	}
	if _, err := Append(nil, &Message{Type: TypeStatus, Status: s}); err != nil {
		t.Error(err)
	}
	begin := &Begin{ConnectTimeout: 1e9, PeerTimeout: 1e9, Window: 1e9}
	for i := range MachinesMax {
		begin.Peers = append(begin.Peers, Peer{i, long, long})
	}
	if _, err := Append(nil, &Message{Type: TypeBegin, Begin: begin}); err != nil {
		t.Error(err)
	}
}

// TestText: any text is made one that a message may have.
func TestText(t *testing.T) {
	for from, want := range map[string]string{"a\nb": "a\nb", "a\x1b[2J\xff": "a\ufffd[2J\ufffd",
		strings.Repeat("ä", TextBytesMax): strings.Repeat("ä", TextBytesMax/2-2) + " …"} {
		got := Text(from)
		if _, err := Append(nil, &Message{Type: TypeQuit, Reason: &Reason{Text: got}}); got != want || err != nil {
			t.Errorf("%.50q: %.50q of %d bytes, %v", from, got, len(got), err)
		}
	}
}

// FuzzParse: any bytes are refused, or are a message that is written as these bytes.
func FuzzParse(f *testing.F) {
	for _, m := range examples(f) {
		b, err := Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		if again, err := Append(nil, m); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x is read as %+v, which is written as %x, %v", b, m, again, err)
		}
	})
}
