// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"fmt"
	"net"
	"sync"
)

// Proxy passes TCP connections on to one server, until it is told to cut clients off.
type Proxy struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu     sync.Mutex
	cut    bool
	closed bool
	healed chan struct{} // closed when it isn't cut
	conns  map[net.Conn]bool
}

// NewProxy listens on a free port of the loopback and passes on to the address to.
func NewProxy(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("storeserver: %w", err)
	}
	p := &Proxy{listener: l, to: to, conns: map[net.Conn]bool{}, healed: make(chan struct{})}
	close(p.healed)
	p.all.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Isolate holds back all traffic, in both directions, and takes no further connection: as a switch that lost its power,
// neither side hears of it.
func (p *Proxy) Isolate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut && !p.closed {
		p.cut, p.healed = true, make(chan struct{})
	}
}

// Heal ends a cut. What was held back passes, as when lost packets are sent again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		p.cut = false
		close(p.healed)
	}
}

// Reset closes all connections, which both sides hear of.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Heal()
	p.listener.Close()
	p.Reset()
	p.all.Wait()
}

// wait returns when traffic may pass.
func (p *Proxy) wait() {
	p.mu.Lock()
	healed := p.healed
	p.mu.Unlock()
	<-healed
}

// add notes connections so that Reset reaches them; a proxy that is closed takes none.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.serve(client) })
	}
}

// serve passes on what two ends of a connection say until one of them has ended.
func (p *Proxy) serve(client net.Conn) {
	p.wait()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		client.Close()
		return
	}
	if !p.add(client, server) {
		client.Close()
	}
	var pair sync.WaitGroup
	pair.Go(func() { p.pass(client, server) })
	p.pass(server, client)
	pair.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// pass copies one direction. An end is held back by a cut as everything is.
func (p *Proxy) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.wait()
		if n > 0 {
			if _, e := to.Write(buffer[:n]); e != nil {
				err = e
			}
		}
		if err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}
