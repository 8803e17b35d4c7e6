// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Operations of ZooKeeper's protocol.
const (
	opCreate      = 1
	opDelete      = 2
	opExists      = 3
	opGetData     = 4
	opSetData     = 5
	opGetACL      = 6
	opSetACL      = 7
	opSync        = 9
	opGetChildren = 12
	opCheck       = 13
	opMulti       = 14
	opAuth        = 100
	opClose       = -11
)

// Numbers that replies have instead of a request's.
const (
	xidEvent = -1
	xidAuth  = -4
)

// Flags of a node that is created.
const (
	flagEphemeral = 1
	flagSequence  = 2
)

// Events of watches.
const (
	eventCreated  = 1
	eventDeleted  = 2
	eventChanged  = 3
	eventChildren = 4
)

// code is an error of the server.
type code int32

const (
	codeOK              code = 0
	codeAfterError      code = -2 // an operation of a multi after the one that failed
	codeNoNode          code = -101
	codeNoAuth          code = -102
	codeBadVersion      code = -103
	codeEphemeralParent code = -108
	codeNodeExists      code = -110
	codeNotEmpty        code = -111
	codeExpired         code = -112
	codeInvalidACL      code = -114
	codeAuthFailed      code = -115
	codeMoved           code = -118
)

// Limits of packets. The server's own limit is jute.maxbuffer, 1,048,575 bytes unless it was told otherwise; replies
// with the names of many children are longer.
const (
	maxRequest = 1<<20 - 1
	maxReply   = 64 << 20
)

// anyVersion stands for any version of a node.
const anyVersion = -1

// packet is a request that is being written. The first four bytes are its length, which seal fills in.
type packet []byte

// request begins a packet. Its number is filled in when it is sent.
func request(op int32) packet { return packet{}.int32(0).int32(0).int32(op) }

func (p packet) int32(v int32) packet { return binary.BigEndian.AppendUint32(p, uint32(v)) }
func (p packet) int64(v int64) packet { return binary.BigEndian.AppendUint64(p, uint64(v)) }

func (p packet) bool(v bool) packet {
	if v {
		return append(p, 1)
	}
	return append(p, 0)
}

func (p packet) text(s string) packet  { return append(p.int32(int32(len(s))), s...) }
func (p packet) bytes(b []byte) packet { return append(p.int32(int32(len(b))), b...) }

// acl is who may use a node.
func (p packet) acl(list []grant) packet {
	p = p.int32(int32(len(list)))
	for _, g := range list {
		p = p.int32(g.perms).text(g.scheme).text(g.id)
	}
	return p
}

// owner is a user and his password as access lists of ZooKeeper have them; "" without a user.
func owner(user, password string) string {
	if user == "" {
		return ""
	}
	sum := sha1.Sum([]byte(user + ":" + password))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// length fills in the length.
func (p packet) length() { binary.BigEndian.PutUint32(p, uint32(len(p)-4)) }

// seal fills in length and number.
func (p packet) seal(xid int32) {
	p.length()
	binary.BigEndian.PutUint32(p[4:], uint32(xid))
}

// step is one operation of a multi. The zero flags are a node that stays.
type step struct {
	op      int32
	path    string
	value   []byte // opCreate, opSetData
	version int32  // opSetData, opDelete, opCheck
	flags   int32  // opCreate
}

// body appends an operation as it stands in a multi and after the head of a request.
func (p packet) body(s step, grants func(path string) []grant) packet {
	p = p.text(s.path)
	switch s.op {
	case opCreate:
		return p.bytes(s.value).acl(grants(s.path)).int32(s.flags)
	case opSetData:
		p = p.bytes(s.value)
	}
	return p.int32(s.version)
}

// multi is the request for all steps or none.
func multi(steps []step, grants func(path string) []grant) packet {
	p := request(opMulti)
	for _, s := range steps {
		p = p.int32(s.op).bool(false).int32(-1).body(s, grants)
	}
	return p.int32(-1).bool(true).int32(-1)
}

// errMalformed is what a server says that doesn't follow the protocol.
var errMalformed = errors.New("the answer isn't ZooKeeper's: is this the right address, and is TLS meant?")

// answer is a reply that is being read. Reading past its end makes it bad, and gives zeros.
type answer struct {
	rest []byte
	bad  bool
}

func (a *answer) take(n int) []byte {
	if n < 0 || n > len(a.rest) {
		a.bad, a.rest = true, nil
		return nil
	}
	b := a.rest[:n:n]
	a.rest = a.rest[n:]
	return b
}

func (a *answer) int32() int32 {
	if b := a.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (a *answer) int64() int64 {
	if b := a.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes reads a buffer; a length of -1 is none.
func (a *answer) bytes() []byte {
	n := a.int32()
	if n == -1 {
		return nil
	}
	return a.take(int(n))
}

// stat is what ZooKeeper says of a node; the zero stat is none.
type stat struct {
	czxid    int64 // the number of the change that created the node
	version  int32
	owner    int64 // the session of an ephemeral node
	size     int32
	children int32
}

func (a *answer) stat() stat {
	s := stat{czxid: a.int64()}
	a.take(8 + 8 + 8) // mzxid, ctime, mtime
	s.version = a.int32()
	a.take(4 + 4) // cversion, aversion
	s.owner, s.size, s.children = a.int64(), a.int32(), a.int32()
	a.take(8) // pzxid
	return s
}

// names reads a list of texts.
func (a *answer) names() []string {
	n := int(a.int32())
	if n < 0 || n > len(a.rest)/4 {
		a.bad = true
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = string(a.bytes())
	}
	return names
}

// failed reads the reply to a multi: the error of the step that failed first, and codeOK if none did.
func (a *answer) failed() (first code) {
	for !a.bad {
		op := a.int32()
		done := a.take(1)
		a.int32()
		if len(done) == 1 && done[0] != 0 {
			return first
		}
		switch op {
		case -1:
			if c := code(a.int32()); first == codeOK && c != codeAfterError {
				first = c
			}
		case opCreate:
			a.bytes()
		case opSetData:
			a.stat()
		case opCheck, opDelete:
		default:
			a.bad = true
		}
	}
	return first
}

// readFrame reads one reply.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxReply {
		return nil, fmt.Errorf("%w (a reply of %d bytes, at most %d are taken)", errMalformed, n, maxReply)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	return frame, nil
}

// packetXid is a sealed request's number.
func packetXid(p packet) uint32 { return binary.BigEndian.Uint32(p[4:]) }
