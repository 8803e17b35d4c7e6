// SPDX-License-Identifier: Apache-2.0

package groupcall

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteJSON writes one JSON value and a newline: on several lines for people, or on one, where more follow.
func WriteJSON(w io.Writer, value any, oneLine bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !oneLine {
		e.SetIndent("", "  ")
	}
	return e.Encode(value)
}

// Columns writes rows below each other.
func Columns(out *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = w.Flush() // a Builder takes everything
}

// Since is how long ago another machine's clock says that something was; clocks differ, so that it is 0 at least. What
// can't be read has no time.
func Since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(0, time.Since(t)).Round(time.Second).String()
}

// Who is the user, for others to ask.
func Who() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}

// AddLabel adds KEY=VALUE.
func AddLabel(labels map[string]string, label string) error {
	key, value, ok := strings.Cut(label, "=")
	if _, twice := labels[key]; !ok || key == "" || twice {
		return fmt.Errorf("found %q, want KEY=VALUE, each key once", label)
	}
	labels[key] = value
	return nil
}

// Exit ends this process as another one has ended, which has said why; it returns only where that was well.
func Exit(status int) error {
	if status != 0 {
		os.Exit(status)
	}
	return nil
}
