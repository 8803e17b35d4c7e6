// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sockets are the rows of the kernel's table of all sockets, and the numbers of those that a server has open.
func (s *Etcd) sockets(t *testing.T) (table func(name string) [][]string, own map[string]bool) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	own = map[string]bool{}
	files, err := filepath.Glob(proc + "fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if target, err := os.Readlink(name); err == nil { // else it is closed again
			own[strings.Trim(strings.TrimPrefix(target, "socket:"), "[]")] = true
		}
	}
	return func(name string) (rows [][]string) {
		text, err := os.ReadFile(proc + "net/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			rows = append(rows, strings.Fields(line))
		}
		return rows[1:] // the first is a head
	}, own
}

// listensOn: a server listens on nothing but these addresses, and what etcd has of HTTP finds nothing.
func listensOn(t *testing.T, s *Etcd, addrs ...string) {
	t.Helper()
	table, own := s.sockets(t)
	var want, found []string
	for _, addr := range addrs {
		_, port, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		want = append(want, fmt.Sprintf("0100007F:%04X", n))
	}
	for _, row := range append(table("tcp"), table("tcp6")...) {
		if row[3] == "0A" && own[row[9]] {
			found = append(found, row[1])
		}
	}
	slices.Sort(want)
	if slices.Sort(found); !slices.Equal(want, found) {
		t.Errorf("it listens on %q, want %q", found, want)
	}
	asked := 0
	for _, row := range table("unix") {
		if len(row) < 8 || !own[row[6]] || !strings.HasPrefix(row[7], "@disco-server-") {
			continue
		}
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", row[7])
		}}
		for _, path := range []string{"", "metrics", "version", "debug/vars", "v3/kv/range"} {
			r, err := (&http.Client{Transport: transport}).Get("http://disco/" + path)
			if err != nil {
				t.Fatal(err)
			}
			asked++
			r.Body.Close()
			if r.StatusCode != http.StatusNotFound {
				t.Errorf("/%s: %s, want nothing there", path, r.Status)
			}
		}
		transport.CloseIdleConnections()
	}
	if asked == 0 {
		t.Error("there is no socket of etcd's HTTP")
	}
}
