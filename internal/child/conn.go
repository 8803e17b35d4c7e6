// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/shm"
)

// conn is one end of the socket, which keeps packets apart. One goroutine receives, any may send.
type conn struct {
	file    *os.File
	raw     syscall.RawConn
	byChild bool          // the other end is the child
	limit   time.Duration // for a packet to be taken by the other end; 0: none

	in, rights []byte // of the one that receives

	mu  sync.Mutex // guards out, and keeps packets in order
	out []byte
}

// packet is what was received. What its body refers to is valid until the next one is received.
type packet struct {
	Packet
	files []*os.File // who takes one sets it nil; closeFiles closes the others
}

func (p *packet) closeFiles() {
	for _, f := range p.files {
		f.Close() // nil: it is an error, and nothing else
	}
}

// take hands over the first file that is left.
func (p *packet) take() *os.File {
	f := p.files[0]
	p.files = p.files[1:]
	return f
}

// socketPair makes both ends.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("child: socket: %w%s", err, shm.Advice(err))
	}
	for _, fd := range pair {
		// Where the machine allows less, a packet that is too long is an error when it is sent.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*packetMax)
	}
	return os.NewFile(uintptr(pair[0]), "child"), os.NewFile(uintptr(pair[1]), "child"), nil
}

func newConn(file *os.File, byChild bool) (*conn, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("child: socket: %w", err)
	}
	return &conn{file: file, raw: raw, byChild: byChild, in: make([]byte, packetMax),
		rights: make([]byte, unix.CmsgSpace(4*filesMax))}, nil
}

// send sends one packet. The files stay the caller's.
func (c *conn) send(k Kind, set int, b Body, files ...*os.File) error {
	rights, err := rightsTo(files)
	if err != nil {
		return fmt.Errorf("child: descriptors for %v: %w", k, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out, err = (&Packet{k, set, b}).Append(c.out[:0]); err != nil {
		return err
	}
	if c.limit > 0 {
		_ = c.file.SetWriteDeadline(time.Now().Add(c.limit)) // a socket has deadlines
	}
	var sent error
	err = c.raw.Write(func(fd uintptr) bool {
		for {
			sent = unix.Sendmsg(int(fd), c.out, rights, nil, unix.MSG_NOSIGNAL)
			if !errors.Is(sent, unix.EINTR) {
				return !errors.Is(sent, unix.EAGAIN)
			}
		}
	})
	runtime.KeepAlive(files)
	if err = errors.Join(err, sent); err != nil {
		return fmt.Errorf("child: sending %v of %d bytes with %d descriptors: %w", k, len(c.out), len(files), err)
	}
	return nil
}

// rightsTo is the control message with these files. It leaves them as they are: Fd would make them blocking.
func rightsTo(files []*os.File) ([]byte, error) {
	if len(files) == 0 {
		return nil, nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return nil, err
		}
	}
	return unix.UnixRights(fds...), nil
}

// receive waits for the next packet; io.EOF: the other end has closed. The caller closes its files.
func (c *conn) receive() (*packet, error) {
	var n, rights, flags int
	var received error
	err := c.raw.Read(func(fd uintptr) bool {
		for {
			n, rights, flags, _, received = unix.Recvmsg(int(fd), c.in, c.rights, unix.MSG_CMSG_CLOEXEC)
			// The other end had packets unread when it closed: those to us are still to come.
			if !errors.Is(received, unix.EINTR) && !errors.Is(received, unix.ECONNRESET) {
				return !errors.Is(received, unix.EAGAIN)
			}
		}
	})
	switch err = errors.Join(err, received); {
	case err != nil:
		return nil, fmt.Errorf("child: receiving: %w", err)
	case n == 0:
		return nil, io.EOF
	}
	p := &packet{}
	if p.files, err = filesOf(c.rights[:rights]); err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("found a packet of more than %d bytes, or more descriptors than %d or than this process may "+
			"have open", packetMax, filesMax)
	}
	if err == nil {
		err = p.decode(c.in[:n], c.byChild)
	}
	if err != nil {
		p.closeFiles()
		return nil, fmt.Errorf("child: packet of %d bytes: %w", n, err)
	}
	return p, nil
}

// watch closes a channel when there is something to receive, or the other end has closed. stop ends that, and reports
// whether it was so. Nobody receives meanwhile.
func (c *conn) watch() (there <-chan struct{}, stop func() bool) {
	found, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := c.raw.Read(func(fd uintptr) bool {
			var b [1]byte
			_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK)
			return !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN)
		})
		if err == nil {
			close(found)
		}
	}()
	return found, func() bool {
		_ = c.file.SetReadDeadline(time.Now()) // a socket has deadlines
		<-ended
		_ = c.file.SetReadDeadline(time.Time{})
		select {
		case <-found:
			return true
		default:
			return false
		}
	}
}

// decode checks a packet and decodes its body.
func (p *packet) decode(b []byte, byChild bool) error {
	if err := p.Parse(b); err != nil {
		return err
	}
	k := &kinds[p.Kind]
	if k.byChild != byChild {
		return fmt.Errorf("found %v, which the other end doesn't send", p.Kind)
	}
	if len(p.files) < k.least || len(p.files) > k.most {
		return fmt.Errorf("found %d descriptors with %v, want %d to %d", len(p.files), p.Kind, k.least, k.most)
	}
	return nil
}

// filesOf takes the files out of the control messages of a packet. Also with an error it returns those it found,
// because they are open.
func filesOf(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("control messages: %w", err)
	}
	for i := range messages {
		fds, parseErr := unix.ParseUnixRights(&messages[i])
		if parseErr != nil {
			err = fmt.Errorf("control message %d: %w", i, parseErr)
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), fmt.Sprintf("handed-%d", len(files))))
		}
	}
	return files, err
}

// finish tells the other end that nothing more comes. What it has sent can still be received.
func (c *conn) finish() {
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // it may have closed
}

func (c *conn) close() { c.file.Close() }
