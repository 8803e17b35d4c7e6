// SPDX-License-Identifier: Apache-2.0

package pty

import (
	"io"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestOpen: what one side writes the other reads, and a size that one side sets the other has.
func TestOpen(t *testing.T) {
	window, line, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer window.Close()
	defer line.Close()
	if _, err := line.WriteString("shown\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("shown\r\n"))
	if _, err := io.ReadFull(window, got); err != nil || string(got) != "shown\r\n" {
		t.Errorf("found %q, %v", got, err)
	}
	if err := Resize(line, 61, 24); err != nil {
		t.Fatal(err)
	}
	err = control(window, func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil && (size.Col != 61 || size.Row != 24) {
			t.Errorf("found %d columns and %d rows, want 61 and 24", size.Col, size.Row)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
