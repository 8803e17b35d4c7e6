// SPDX-License-Identifier: Apache-2.0

// Package selfprofile lets a process of a run give profiles of itself to whoever may look at it, while the run goes on.
//
// Guarantee: a process that nobody asked to do so listens nowhere. One that was serves its own user alone, as the
// kernel knows the other side; it takes at most connectionsMax requests at a time, each bounded in bytes and time,
// and a request changes nothing but that the process is profiled for as long as somebody waits for it.
//
//	defer selfprofile.Begin()()   // in the launcher, before its workers start: they inherit it
//	defer selfprofile.Serve()()   // in each of them
//	conn, err := net.Dial("unix", selfprofile.Address(pid))
//	fmt.Fprintf(conn, "cpu 5\n")  // the answer is "ok\n" and the profile, or "error: …\n"
//
// It listens on an abstract Unix socket that its process id names, and does so without package net: disco-run and all
// workers would be larger by it.
package selfprofile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SecondsMax is how long a CPU profile may take.
const SecondsMax = 600

// CPU is the kind that takes time. The others are those of runtime/pprof: heap, goroutine, allocs, block, mutex,
// threadcreate.
const CPU = "cpu"

const (
	variable       = "DISCO_PROFILES" // set for the processes of a run that is to give profiles
	connectionsMax = 4
	waitingMax     = 64 // further connections, until the system refuses them
	requestBytes   = 64
	requestMax     = 5 * time.Second  // until a request is there
	answerMax      = 30 * time.Second // until a profile is taken
)

// Begin has this process give profiles, and those that it starts from now on and that call Serve, until end is called.
func Begin() (end func()) {
	_ = os.Setenv(variable, "1") // it fails for names that there can't be
	stop := Serve()
	return func() {
		_ = os.Unsetenv(variable)
		stop()
	}
}

// Address is where the process with an id gives profiles, for net.Dial("unix", …).
func Address(pid int) string { return "@disco-profiles-" + strconv.Itoa(pid) }

// Serve gives profiles of this process until stop is called, where Begin was called here or in the process that has
// started this one; else it does nothing. What can't listen gives none: a run doesn't end for it.
func Serve() (stop func()) {
	if os.Getenv(variable) == "" {
		return func() {}
	}
	s, err := listen(Address(os.Getpid()))
	if err != nil {
		return func() {}
	}
	s.ends.Go(s.accept)
	return s.stop
}

// server gives profiles.
type server struct {
	listener *os.File
	places   chan struct{} // one for each connection
	over     chan struct{} // closed by stop
	ends     sync.WaitGroup
}

// listen listens at an address, whose @ stands for the zero that begins abstract ones.
func listen(address string) (*server, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err == nil {
		err = unix.Listen(fd, waitingMax)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &server{listener: os.NewFile(uintptr(fd), address), places: make(chan struct{}, connectionsMax),
		over: make(chan struct{})}, nil
}

// stop ends it, with the profiles that are being taken.
func (s *server) stop() {
	close(s.over)
	_ = s.listener.Close()
	s.ends.Wait()
}

// accept takes connections until stop.
func (s *server) accept() {
	raw, err := s.listener.SyscallConn()
	if err != nil {
		return
	}
	for {
		select {
		case s.places <- struct{}{}:
		case <-s.over:
			return
		}
		fd, failed := -1, error(nil)
		err := raw.Read(func(listener uintptr) (done bool) {
			fd, _, failed = unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return failed != unix.EAGAIN
		})
		if err != nil {
			return // it was closed
		}
		if failed != nil { // of a connection that has ended meanwhile, or there is no descriptor left
			<-s.places
			select {
			case <-time.After(time.Second):
			case <-s.over:
			}
			continue
		}
		s.ends.Go(func() {
			defer func() { <-s.places }()
			s.serve(os.NewFile(uintptr(fd), "profile"))
		})
	}
}

// serve answers one request.
func (s *server) serve(conn *os.File) {
	defer conn.Close()
	if !own(conn) {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(requestMax))
	line, err := bufio.NewReaderSize(io.LimitReader(conn, requestBytes), requestBytes).ReadString('\n')
	if err != nil {
		return
	}
	profile, err := s.take(strings.TrimSpace(line), conn)
	_ = conn.SetWriteDeadline(time.Now().Add(answerMax))
	if err != nil {
		fmt.Fprintf(conn, "error: %v\n", err)
		return
	}
	if _, err := io.WriteString(conn, "ok\n"); err == nil {
		_, _ = conn.Write(profile)
	}
}

// own reports whether the other side is of this process's user, or root.
func own(conn *os.File) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
	})
	return err == nil && ok
}

// take takes the profile that a request names: its kind, and for one of the processor the seconds.
func (s *server) take(request string, conn *os.File) ([]byte, error) {
	kind, rest, _ := strings.Cut(request, " ")
	var text bytes.Buffer
	if kind != CPU {
		p := pprof.Lookup(kind)
		if p == nil {
			return nil, fmt.Errorf("found the kind %q, want %s, or one of heap, goroutine, allocs, block, mutex, "+
				"threadcreate", kind, CPU)
		}
		err := p.WriteTo(&text, 0)
		return text.Bytes(), err
	}
	seconds, err := strconv.ParseFloat(rest, 64)
	if err != nil || !(seconds > 0) || seconds > SecondsMax || math.IsNaN(seconds) {
		return nil, fmt.Errorf("found %q seconds, want more than 0 and at most %d", rest, SecondsMax)
	}
	if err := pprof.StartCPUProfile(&text); err != nil {
		return nil, fmt.Errorf("there is a profile under way already (--cpuprofile, or somebody else asks): %w", err)
	}
	s.wait(conn, time.Duration(seconds*float64(time.Second)))
	pprof.StopCPUProfile()
	return text.Bytes(), nil
}

// wait waits until the time is over, or nobody waits for the answer any more, or stop.
func (s *server) wait(conn *os.File, d time.Duration) {
	timer, gone := time.NewTimer(d), make(chan struct{})
	defer timer.Stop()
	_ = conn.SetReadDeadline(time.Now().Add(d + time.Second))
	s.ends.Go(func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1)) // ends when the other side does
	})
	select {
	case <-timer.C:
	case <-gone:
	case <-s.over:
	}
	_ = conn.SetReadDeadline(time.Now())
	<-gone
}
