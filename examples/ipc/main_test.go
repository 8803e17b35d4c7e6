// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestBoth: without arguments a listener and a sender meet, and it ends.
func TestBoth(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // names of listeners stand there
	if err := run(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestNobodyListens: a sender waits as long as it is told, and then says for whom.
func TestNobodyListens(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	err := run(t.Context(), []string{"send", "-patience", "50ms", "nobody-at-all"})
	if err == nil || errors.Is(err, errUsage) || !strings.HasSuffix(err.Error(),
		"start `ipc listen nobody-at-all`, or give more -patience") ||
		!strings.HasPrefix(err.Error(), `nobody listens as "nobody-at-all" after 50ms`) {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, line := range []string{
		"send", "sendd x", "send -count NaN x", "send -count -1 x", "send -count 1e13 x", "send -count x y",
		"send -size -1 x",
		"send -size 9999999999 x", "send -patience -1s x", "send -frobnicate x", "send a b", "listen",
		"listen -senders -1 x", "listen -count 3 x",
	} {
		if err := run(t.Context(), strings.Fields(line)); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", line, err)
		}
	}
	begin := time.Now()
	if err := run(t.Context(), []string{"send", "-patience", "1h", "a/b"}); err == nil ||
		time.Since(begin) > time.Minute {
		t.Errorf("a name that nobody can have: %v", err)
	}
}
