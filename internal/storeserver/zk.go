// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/forward"
)

// zkJar is where Debian's package has ZooKeeper; its manifest names the other archives, but for one that TLS needs.
const (
	zkJar    = "/usr/share/java/zookeeper.jar"
	codecJar = "/usr/share/java/netty-codec.jar"
)

// Ensemble is ZooKeeper servers that serve as one, or a single one.
type Ensemble struct {
	Servers []*ZK
}

// ZK is one ZooKeeper server, reached through its proxy.
type ZK struct {
	*Process
	Proxy  *forward.Forwarder
	direct string // the server's own address
	tls    *tls.Config
}

// ZKOptions are what tests and measurements want differently.
type ZKOptions struct {
	Tick time.Duration // sessions last 2 to 20 of it; 0 is 200 ms
	Sync bool          // every write reaches the disk before it is answered
	TLS  *Certificates // clients must use TLS and show the certificate; nil: they don't
	On   *Hosts        // each server is on a host; nil: all are on this one's loopback
}

// StartEnsemble starts n servers, 1 or 3, whose files lie in dir, and waits until all of them serve.
func StartEnsemble(ctx context.Context, dir string, n int, o ZKOptions) (*Ensemble, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("storeserver: java, for ZooKeeper, %w (Debian's package zookeeper has both)", ErrAbsent)
	}
	if _, err := os.Stat(zkJar); err != nil {
		return nil, fmt.Errorf("storeserver: %s %w (Debian's package zookeeper has it)", zkJar, ErrAbsent)
	}
	ports, err := freePorts(3 * n)
	if err != nil {
		return nil, err
	}
	z := &Ensemble{}
	for i := range n {
		s, err := newZK(java, filepath.Join(dir, strconv.Itoa(i+1)), i, ports, o)
		if err != nil {
			z.Close()
			return nil, err
		}
		z.Servers = append(z.Servers, s)
		if err := s.Start(); err != nil {
			z.Close()
			return nil, err
		}
	}
	if err := z.Ready(ctx); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

// addr is where server i is.
func (o *ZKOptions) addr(i int) string {
	if o.On != nil {
		return o.On.Addr(i).String()
	}
	return "127.0.0.1"
}

// newZK writes the files of server i, which has ports[i] for clients. The others are for the ensemble.
func newZK(java, dir string, i int, ports []string, o ZKOptions) (*ZK, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	n := len(ports) / 3
	tick := o.Tick
	if tick == 0 {
		tick = 200 * time.Millisecond
	}
	config := fmt.Sprintf("tickTime=%d\ninitLimit=50\nsyncLimit=10\ndataDir=%s\n", tick.Milliseconds(), dir) +
		"admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n"
	var client *tls.Config
	if o.TLS == nil {
		config += "clientPortAddress=" + o.addr(i) + "\nclientPort=" + ports[i] + "\n"
	} else {
		config += "secureClientPortAddress=" + o.addr(i) + "\nsecureClientPort=" + ports[i] + "\n" +
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n" +
			"ssl.keyStore.type=PEM\nssl.keyStore.location=" + o.TLS.Both + "\n" +
			"ssl.trustStore.type=PEM\nssl.trustStore.location=" + o.TLS.CA + "\nssl.clientAuth=need\n"
		var err error
		if client, err = o.TLS.Client(); err != nil {
			return nil, err
		}
	}
	if o.On != nil { // longer sessions than 20 ticks, but a leader that is cut off is noticed after 10
		config += "maxSessionTimeout=20000\n"
	}
	for k := range n {
		if n > 1 {
			config += fmt.Sprintf("server.%d=%s:%s:%s\n", k+1, o.addr(k), ports[n+k], ports[2*n+k])
		}
	}
	for name, text := range map[string]string{"zoo.cfg": config, "myid": strconv.Itoa(i + 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	direct := o.addr(i) + ":" + ports[i]
	proxy, err := forward.New("", direct)
	if err != nil {
		return nil, err
	}
	// A server that has fallen behind is sent all of the tree: 3.8.0, which is Debian's, keeps what it is sent
	// otherwise in memory only, and has lost it after the next kill (ZOOKEEPER-4646, ZOOKEEPER-4785).
	// An election waits for connections to servers that are cut off for 5 s otherwise, and sessions end meanwhile.
	process := newProcess(dir, "version-2", java, "-Dzookeeper.forceSnapshotSync=true", "-Dzookeeper.cnxTimeout=500",
		"-Xmx128m", "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.forceSync="+map[bool]string{true: "yes", false: "no"}[o.Sync],
		"-cp", zkJar+":"+codecJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
	if o.On != nil {
		o.On.put(i, process)
	}
	return &ZK{Process: process, Proxy: proxy, direct: direct, tls: client}, nil
}

// Addrs are the addresses of all servers, through their proxies.
func (z *Ensemble) Addrs() (addrs []string) {
	for _, s := range z.Servers {
		addrs = append(addrs, s.Proxy.Addr())
	}
	return addrs
}

// Ready waits until every server that was started serves.
func (z *Ensemble) Ready(ctx context.Context) error {
	for _, s := range z.Servers {
		for s.Mode() == "" {
			select {
			case <-ctx.Done():
				return fmt.Errorf("storeserver: ZooKeeper at %s doesn't serve: %w\n%s", s.direct, context.Cause(ctx),
					s.Output())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// Leader is the server that leads, or nil while none does.
func (z *Ensemble) Leader() *ZK {
	for _, s := range z.Servers {
		if mode := s.Mode(); mode == "leader" || mode == "standalone" {
			return s
		}
	}
	return nil
}

// Close kills all servers and ends their proxies.
func (z *Ensemble) Close() {
	for _, s := range z.Servers {
		s.Signal(syscall.SIGCONT)
		s.Kill()
		s.Proxy.Close()
	}
}

// Addr is the server's own address, past its proxy.
func (s *ZK) Addr() string { return s.direct }

// Mode is "leader", "follower" or "standalone", and "" while the server doesn't serve.
func (s *ZK) Mode() string {
	c, err := net.DialTimeout("tcp", s.direct, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	if s.tls != nil {
		config := s.tls.Clone()
		config.ServerName = "127.0.0.1"
		c = tls.Client(c, config)
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, "srvr") // the answer fails too, then
	var text strings.Builder
	_, _ = io.Copy(&text, io.LimitReader(c, 1<<16))
	_, mode, _ := strings.Cut(text.String(), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}
