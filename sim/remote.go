// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/sim/dist"
)

// What a node sends for units of another's server. ID counts the requests of a client. Every remoteAsk is followed by
// one remoteDone, which may come before it: it takes back a request that isn't granted, releases the units of one that
// is, and confirms a refusal; so the server's node knows each request from the first of the two to the second.
type (
	remoteAsk struct {
		Client   int32 // index of the node
		Server   uint32
		ID       uint64
		Units    int32
		Priority float64
	}
	remoteDone struct {
		Client int32
		Server uint32
		ID     uint64
	}
	remoteReply struct {
		Owner   int32
		Server  uint32
		ID      uint64
		Granted bool // false: the queue is full
	}
)

// remotes are a node's servers that others use, and those of others that it uses.
type remotes struct {
	offered []*offered
	used    []*RemoteServer
}

// offered is a server that other nodes use.
type offered struct {
	s       *Server
	key     uint32
	clients map[int32]*Link[remoteReply]
	asked   map[remoteDone]Grant // what is queued or granted; the zero Grant where it was refused
	early   map[remoteDone]bool  // what was taken back before it came
}

// remoteKey numbers a server by its name (FNV-1a).
func remoteKey(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h
}

// Offer lets other nodes use the server as a RemoteServer: delay is how long a reply takes to get to them, and its
// least time is the lookahead of the links to them. It is called in the setup function.
func (s *Server) Offer(delay dist.Dist, clients ...string) {
	n := s.n
	if n.remotes == nil || n.remotes.offered == nil {
		n.remotesOf().offered = []*offered{}
		On(n, func(c *Context, e remoteAsk) { n.offer(e.Server, e.Client).ask(c, e) })
		On(n, func(c *Context, e remoteDone) { n.offer(e.Server, e.Client).done(c, e) })
	}
	o := &offered{s: s, key: remoteKey(s.name), clients: map[int32]*Link[remoteReply]{},
		asked: map[remoteDone]Grant{}, early: map[remoteDone]bool{}}
	for _, other := range n.remotes.offered {
		if other.key == o.key {
			n.misuse("Offer: %s was offered already, or its name is too like that of %s", s.name, other.s.name)
		}
	}
	for _, name := range clients {
		l := LinkTo[remoteReply](n, name, delay)
		g, i, _ := n.m.find(name)
		o.clients[int32(g.first+i)] = l
	}
	n.unsaved("the server "+s.name+", which others use,", nil)
	n.remotes.offered = append(n.remotes.offered, o)
}

func (n *Node) remotesOf() *remotes {
	if n.remotes == nil {
		n.remotes = &remotes{}
	}
	return n.remotes
}

// offer is the server of a key.
func (n *Node) offer(key uint32, client int32) *offered {
	for _, o := range n.remotes.offered {
		if o.key == key && o.clients[client] != nil {
			return o
		}
	}
	panic(&failure{n.at() + fmt.Sprintf("%s uses a server as a RemoteServer that isn't offered to it: name it in "+
		"Server.Offer in %s", n.m.nodeName(int(client)), n.name)})
}

func (o *offered) ask(c *Context, e remoteAsk) {
	id := remoteDone{e.Client, e.Server, e.ID}
	if o.early[id] {
		delete(o.early, id)
		return
	}
	s := o.s
	r := s.request(c, nil, []RequestOption{Priority(e.Priority), Units(int(e.Units))})
	reply := remoteReply{int32(s.n.group.first + s.n.index), e.Server, e.ID, true}
	r.do = call(func(c *Context) { o.clients[e.Client].Send(c, reply) })
	g := Grant{r, r.generation}
	if !s.enter(r) {
		g, reply.Granted = Grant{}, false
		o.clients[e.Client].Send(c, reply)
	}
	o.asked[id] = g
}

func (o *offered) done(c *Context, e remoteDone) {
	g, ok := o.asked[e]
	if !ok {
		o.early[e] = true
		return
	}
	delete(o.asked, e)
	if g.r != nil && !g.Cancel(c) {
		g.Release(c)
	}
}

// RemoteServer is a server of another node, as processes of this node use it: what they ask for and give back travels
// over links. name.wait is the time until a process knows that it has what it asked for, both ways included;
// name.reneged and name.balked count as those of a Server. The server itself records the waiting in its own queue.
//
// A request that is given up while it is under way is settled by its node: units that are granted meanwhile are given
// back when the message gets there, so the server sees them as used until then. Units that are released can be used by
// others when the message has got there.
type RemoteServer struct {
	n       *Node
	name    string
	key     uint32
	owner   int32
	client  int32
	ask     *Link[remoteAsk]
	done    *Link[remoteDone]
	last    uint64
	waiting map[uint64]*remoteWait
	held    map[*Process][]uint64

	wait            *Tally
	reneged, balked *Counter
}

// remoteWait is a process that has asked.
type remoteWait struct {
	s       *RemoteServer
	p       *Process
	id      uint64
	granted bool
}

// RemoteServer declares that the node uses a server of another node, which offers it (Server.Offer). delay is how long
// a message takes to get there, and its least time is the lookahead of the links to there. What is recorded has the
// name node.server.
func (n *Node) RemoteServer(owner, server string, delay dist.Dist) *RemoteServer {
	name := owner + "." + server
	n.unsaved("the server "+server+" of "+owner, nil)
	s := &RemoteServer{n: n, name: n.m.within + name, key: remoteKey(server), client: int32(n.group.first + n.index),
		ask: LinkTo[remoteAsk](n, owner, delay), done: LinkTo[remoteDone](n, owner, delay),
		waiting: map[uint64]*remoteWait{}, held: map[*Process][]uint64{}}
	g, i, _ := n.m.find(owner)
	s.owner = int32(g.first + i)
	s.wait = n.Tally(name+".wait", Unit("s"), Doc("until a process knows that it has what it asked for"))
	s.reneged = n.Counter(name+".reneged", Doc("requests that were given up"))
	s.balked = n.Counter(name+".balked", Doc("requests that found the queue full"))
	if r := n.remotesOf(); len(r.used) == 0 {
		On(n, func(c *Context, e remoteReply) { n.remoteReply(e) })
	}
	n.remotes.used = append(n.remotes.used, s)
	return s
}

func (n *Node) remoteReply(e remoteReply) {
	for _, s := range n.remotes.used {
		if s.owner != e.Owner || s.key != e.Server {
			continue
		}
		if w := s.waiting[e.ID]; w != nil { // given up otherwise, which its node learns
			delete(s.waiting, e.ID)
			if w.granted = e.Granted; !e.Granted {
				s.done.Send(&n.ctx, remoteDone{s.client, s.key, w.id})
			}
			w.p.grant()
		}
		return
	}
}

// Acquire waits until the process has a unit, however long. It is false only where the queue is full.
func (s *RemoteServer) Acquire(p *Process, options ...RequestOption) bool {
	return s.acquire(p, math.Inf(1), false, options)
}

// AcquireWithin is Acquire for a time at most, in seconds, +Inf for any: it returns false, too, when that is over
// first, or the process is interrupted.
func (s *RemoteServer) AcquireWithin(p *Process, delay float64, options ...RequestOption) bool {
	return s.acquire(p, delay, true, options)
}

func (s *RemoteServer) acquire(p *Process, delay float64, interruptible bool, options []RequestOption) bool {
	s.owned(p)
	if !(delay >= 0) {
		p.n.misuse("%s: AcquireWithin(%v): want a time of 0 s or more", s.name, delay)
	}
	if interruptible && p.interruptedBefore() {
		return false
	}
	s.last++
	e, since := remoteAsk{Client: s.client, Server: s.key, ID: s.last, Units: 1}, s.n.now
	for _, o := range options {
		if o.isUnits {
			e.Units = int32(min(max(o.value, 0), math.MaxInt32))
		} else {
			e.Priority = o.value
		}
	}
	p.ready()
	w := &remoteWait{s: s, p: p, id: s.last}
	s.waiting[w.id] = w
	if p.n.journaled {
		p.noteWait(fmt.Sprintf("for %d of %s", e.Units, s.name), delay)
	}
	s.ask.Send(p, e)
	if !interruptible {
		p.pause(holding)
	} else {
		p.waits = w
		if !math.IsInf(delay, 1) {
			p.timer = s.n.after("AcquireWithin", delay, p)
		}
		if p.wait() != resumed {
			return false
		}
	}
	if p.n.journaled {
		p.note("%s %s", map[bool]string{true: "has", false: "can't have"}[w.granted], s.name)
	}
	if !w.granted {
		s.balked.Inc()
		return false
	}
	s.wait.Add(s.n.now - since)
	s.held[p] = append(s.held[p], w.id)
	p.remotes++
	return true
}

// withdraw gives up a request, wherever it is.
func (w *remoteWait) withdraw() {
	s := w.s
	delete(s.waiting, w.id)
	s.reneged.Inc()
	s.done.Send(&s.n.ctx, remoteDone{s.client, s.key, w.id})
}

// Release gives back what the process acquired last; the server has it when the message has got there.
func (s *RemoteServer) Release(p *Process) {
	s.owned(p)
	if s.n.workers.closed {
		return // a deferred call when the run is over
	}
	ids := s.held[p]
	if len(ids) == 0 {
		p.n.misuse("%s: released by a process that doesn't hold it", s.name)
	}
	if p.n.journaled {
		p.note("gives back %s", s.name)
	}
	last := len(ids) - 1
	s.done.Send(p, remoteDone{s.client, s.key, ids[last]})
	p.remotes--
	if s.held[p] = ids[:last]; last == 0 {
		delete(s.held, p)
	}
}

// owned refuses a process of another node.
func (s *RemoteServer) owned(p *Process) {
	if p.n != s.n {
		p.n.misuse("%s: declared by %s, and every node declares what it uses", s.name, s.n.name)
	}
	if p.state != running {
		p.n.misuse("%s: a process was used by something other than the function that it was given to", s.name)
	}
}
