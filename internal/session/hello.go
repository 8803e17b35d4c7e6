// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// The body of hello and welcome.
const (
	helloMagic      = "discobrg"
	helloVersion    = 1
	helloVersionAt  = 8
	helloStreamAt   = 12
	helloClusterAt  = 16
	helloRunAt      = 80
	helloFromAt     = 96
	helloToAt       = 100
	helloOwnAt      = 104
	helloPeerAt     = 112
	helloAttemptAt  = 120
	helloAppliedAt  = 128
	helloTokenAt    = 136
	helloProgramAt  = 168
	helloChecksumAt = 200
	helloBytes      = 208
	clusterBytesMax = helloRunAt - helloClusterAt
	textOffset      = 4 // in refuse and bye
)

// Identity is what both sides of a session must agree on, but for the incarnation, which is each one's own: another
// one for each process that has had this place in the run, and not 0.
type Identity struct {
	Cluster     string // at most 64 bytes, none of them 0
	Run         [16]byte
	Token       [32]byte
	Program     [32]byte // digest
	Incarnation uint64
}

// Hello is the first frame that the dialling side sends on a connection; a welcome is the same the other way round.
type Hello struct {
	Stream   Stream
	From, To int // machines
	Identity
	Peer    uint64 // incarnation of the other side; 0: not known yet
	Attempt uint64 // of this connection; a later one is higher
	Applied uint64 // highest number applied of the other direction
}

// Code is why a session was refused, or ended.
type Code uint32

// Refusals are from CodeVersion.
const (
	CodeDone        Code = iota // all is acknowledged, or not wanted any more
	CodeFailed                  // the text says what has failed
	CodeVersion                 // of the protocol
	CodeCluster                 // another one
	CodeRun                     // another one
	CodeToken                   // not that of the run
	CodeMachine                 // or stream, that isn't the one awaited
	CodeProgram                 // another build
	CodeIncarnation             // another process has or had this place
	CodeNumber                  // applied is what can't be
)

// EndError is the end of a session by the other side: a bye, or a refuse.
type EndError struct {
	Machine int // that ended it
	Stream  Stream
	Refused bool
	Code    Code
	Text    string
}

// Error has all of the fields.
func (e *EndError) Error() string {
	how := "has ended the session"
	if e.Refused {
		how = "has refused the session"
	}
	return fmt.Sprintf("session: machine %d, %v: it %s (code %d): %q", e.Machine, e.Stream, how, e.Code, e.Text)
}

// refusal is what is wrong with a hello.
type refusal struct {
	code Code
	text string
}

func (r *refusal) Error() string { return "session: refused: " + r.text }

func (h *Hello) put(b []byte) {
	le := binary.LittleEndian
	clear(b)
	copy(b, helloMagic)
	le.PutUint32(b[helloVersionAt:], helloVersion)
	le.PutUint32(b[helloStreamAt:], uint32(h.Stream))
	copy(b[helloClusterAt:helloRunAt], h.Cluster)
	copy(b[helloRunAt:], h.Run[:])
	le.PutUint32(b[helloFromAt:], uint32(int32(h.From)))
	le.PutUint32(b[helloToAt:], uint32(int32(h.To)))
	le.PutUint64(b[helloOwnAt:], h.Incarnation)
	le.PutUint64(b[helloPeerAt:], h.Peer)
	le.PutUint64(b[helloAttemptAt:], h.Attempt)
	le.PutUint64(b[helloAppliedAt:], h.Applied)
	copy(b[helloTokenAt:], h.Token[:])
	copy(b[helloProgramAt:], h.Program[:])
	le.PutUint64(b[helloChecksumAt:], checksum(b))
}

// checksum is that of a hello's body.
func checksum(b []byte) uint64 { return xxhash.Sum64(b[:helloChecksumAt]) }

// greeting makes a message of one hello or welcome.
func (h *Hello) greeting(t Type, b []byte) {
	Header{Type: t}.put(b, helloBytes)
	h.put(b[HeaderBytes:])
}

// ParseHello reads the first message of a connection that has come in: what chooses the session which Accept then
// compares it with. The error is for Refuse.
func ParseHello(message []byte) (Hello, error) {
	h, body, rest, bad := parse(message, Express) // a hello is the same on both
	if bad == nil && (h.Type != hello || len(rest) != 0) {
		bad = badFrame(0, offsetType, fmt.Sprint("type ", uint8(h.Type), " and ", len(rest), " more bytes"),
			"one hello")
	}
	if bad != nil {
		return Hello{}, &refusal{CodeFailed, fmt.Sprintf("no hello: byte %d: found %s, allowed: %s",
			bad.Byte, bad.Found, bad.Allowed)}
	}
	return parseHello(body)
}

func parseHello(b []byte) (h Hello, err error) {
	le := binary.LittleEndian
	version, sum := le.Uint32(b[helloVersionAt:]), checksum(b)
	switch {
	case string(b[:len(helloMagic)]) != helloMagic:
		return h, &refusal{CodeVersion, fmt.Sprintf("found magic %q, allowed: %q", b[:len(helloMagic)], helloMagic)}
	case version != helloVersion:
		return h, &refusal{CodeVersion, fmt.Sprintf(
			"found version %d of the protocol, allowed: %d: use one build of disco", version, helloVersion)}
	case le.Uint64(b[helloChecksumAt:]) != sum:
		return h, &refusal{CodeFailed, fmt.Sprintf("found checksum %#x, allowed: %#x",
			le.Uint64(b[helloChecksumAt:]), sum)}
	}
	cluster, _, _ := bytes.Cut(b[helloClusterAt:helloRunAt], []byte{0})
	h = Hello{
		Stream: Stream(le.Uint32(b[helloStreamAt:])),
		From:   int(int32(le.Uint32(b[helloFromAt:]))),
		To:     int(int32(le.Uint32(b[helloToAt:]))),
		Identity: Identity{Cluster: string(cluster), Run: [16]byte(b[helloRunAt:]), Token: [32]byte(b[helloTokenAt:]),
			Program: [32]byte(b[helloProgramAt:]), Incarnation: le.Uint64(b[helloOwnAt:])},
		Peer:    le.Uint64(b[helloPeerAt:]),
		Attempt: le.Uint64(b[helloAttemptAt:]),
		Applied: le.Uint64(b[helloAppliedAt:]),
	}
	return h, nil
}

// fits compares what the other side has sent with what this one sends, and with the incarnation it had before.
func (h *Hello) fits(own *Hello, before uint64) error {
	no := func(code Code, what string, found, allowed any) error {
		return &refusal{code, fmt.Sprintf("found %s %v, allowed: %v", what, found, allowed)}
	}
	switch {
	case h.Cluster != own.Cluster:
		return no(CodeCluster, "cluster", fmt.Sprintf("%q", h.Cluster), fmt.Sprintf("%q", own.Cluster))
	case h.Run != own.Run:
		return no(CodeRun, "run", fmt.Sprintf("%x", h.Run), fmt.Sprintf("%x", own.Run))
	case subtle.ConstantTimeCompare(h.Token[:], own.Token[:]) != 1:
		return no(CodeToken, "token", "another", "that of the run")
	case h.Stream != own.Stream || h.From != own.To || h.To != own.From:
		return no(CodeMachine, "session", fmt.Sprintf("%v from machine %d to %d", h.Stream, h.From, h.To),
			fmt.Sprintf("%v from machine %d to %d", own.Stream, own.To, own.From))
	case h.Program != own.Program:
		return no(CodeProgram, "program", fmt.Sprintf("%.4x", h.Program),
			fmt.Sprintf("%.4x: use one build of it", own.Program))
	case h.Incarnation == 0 || before != 0 && h.Incarnation != before:
		return no(CodeIncarnation, "incarnation", h.Incarnation,
			fmt.Sprint("that of the process which has this place, ", before))
	case h.Peer != 0 && h.Peer != own.Incarnation:
		return no(CodeIncarnation, "incarnation of the peer", h.Peer, own.Incarnation)
	}
	return nil
}

// endBytes holds any bye or refuse.
const endBytes = HeaderBytes + textOffset + textBytesMax

// putEnd makes the message of a bye or a refuse, and gives its size.
func putEnd(b []byte, t Type, ack uint64, code Code, text string) int {
	text = text[:min(len(text), textBytesMax)]
	size := textOffset + len(text)
	Header{Type: t, Ack: ack}.put(b, size)
	binary.LittleEndian.PutUint32(b[HeaderBytes:], uint32(code))
	copy(b[HeaderBytes+textOffset:], text)
	return HeaderBytes + size
}

// parseEnd reads the body of a bye or a refuse.
func parseEnd(t Type, b []byte, machine int, stream Stream) *EndError {
	return &EndError{machine, stream, t == refuse, Code(binary.LittleEndian.Uint32(b)), string(b[textOffset:])}
}
