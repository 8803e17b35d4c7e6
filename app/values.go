// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/ring"
	"github.com/urfave/cli/v2"
)

// values reads the values of flags and collects what is wrong with them, so that all mistakes are reported at once.
type values struct {
	c    *cli.Context
	errs []error
}

func (v *values) err() error { return errors.Join(v.errs...) }

func (v *values) refuse(flag, found, want string) {
	v.errs = append(v.errs, usage("--%s: found %s, want %s", flag, found, want))
}

// integer reads a whole number from least to most; def where the flag isn't given.
func (v *values) integer(flag string, def, least, most int) int {
	if !v.c.IsSet(flag) {
		return def
	}
	text := v.c.String(flag)
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.refuse(flag, text, want)
	case err != nil:
		v.refuse(flag, strconv.Quote(text), want)
	case n < least || n > most:
		v.refuse(flag, strconv.Itoa(n), want)
	default:
		return n
	}
	return def
}

// seed reads any 64-bit number, decimal or with 0x in front; def where the flag isn't
// given.
func (v *values) seed(flag string, def uint64) uint64 {
	if !v.c.IsSet(flag) {
		return def
	}
	text := v.c.String(flag)
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		v.refuse(flag, strconv.Quote(text), fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)))
	}
	return n
}

// seconds reads a time > 0; 0 where the flag isn't given.
func (v *values) seconds(flag string) float64 {
	if !v.c.IsSet(flag) {
		return 0
	}
	text := v.c.String(flag)
	const want = "a finite number of simulated seconds > 0"
	s, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		v.refuse(flag, strconv.Quote(text), want)
	case !(s > 0) || math.IsInf(s, 1):
		v.refuse(flag, text, want)
	default:
		return s
	}
	return 0
}

// duration reads a time on the wall, 0 or more; def where the flag isn't given.
func (v *values) duration(flag string, def time.Duration) time.Duration {
	if !v.c.IsSet(flag) {
		return def
	}
	text := v.c.String(flag)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		v.refuse(flag, strconv.Quote(text), "a time of 0 or more with its unit, such as 500ms, 90s or 5m")
		return def
	}
	return d
}

// share reads a share of 0 or more, as a number or in percent; 0 where the flag isn't given.
func (v *values) share(flag string) float64 {
	if !v.c.IsSet(flag) {
		return 0
	}
	text := v.c.String(flag)
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 1) {
		v.refuse(flag, strconv.Quote(text), "a finite share of 0 or more, such as 0.02 or 2%")
		return 0
	}
	if percent {
		x /= 100
	}
	return x
}

// size reads a number of bytes, with K, M or G behind it for powers of 1024; 0 where
// the flag isn't given.
func (v *values) size(flag string, least, most int, powerOfTwo bool) int {
	if !v.c.IsSet(flag) {
		return 0
	}
	text := v.c.String(flag)
	want := fmt.Sprintf("a number of bytes from %d to %d (64K, 1M, 2G are understood)", least, most)
	if powerOfTwo {
		want = strings.Replace(want, "bytes from", "bytes that is a power of two, from", 1)
	}
	n, ok := tables.ParseBytes(text, min(int64(most), math.MaxInt64-1))
	switch {
	case !ok:
		v.refuse(flag, strconv.Quote(text), want)
	case n < int64(least) || n > int64(most) || powerOfTwo && ring.CheckCapacity(int(n), least, most) != nil:
		v.refuse(flag, text, want)
	default:
		return int(n)
	}
	return 0
}

// bytesText is a number of bytes as size reads it.
func bytesText(n int) string {
	for _, unit := range []string{"", "K", "M"} {
		if n%1024 != 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%dG", n)
}

// inlineFitsRing checks that the largest payload inside a ring leaves room for others.
func (v *values) inlineFitsRing(t worker.Tuning) {
	bytes := t.RingBytes
	if bytes == 0 {
		bytes = worker.RingBytesDefault
	}
	if t.InlineMax > bytes/8 {
		v.refuse("inline-max", strconv.Itoa(t.InlineMax), fmt.Sprintf(
			"at most %d, an eighth of the ring's %d bytes (--ring-bytes)", bytes/8, bytes))
	}
}

// word reads one of a few words; empty where the flag isn't given.
func (v *values) word(flag string, words ...string) string {
	if !v.c.IsSet(flag) {
		return ""
	}
	text := v.c.String(flag)
	for _, w := range words {
		if text == w {
			return w
		}
	}
	v.refuse(flag, strconv.Quote(text), strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	return ""
}

// path reads the name of a file; empty where the flag isn't given.
func (v *values) path(flag string) string { return v.text(flag, "the name of a file") }

// text reads a text that isn't empty; empty where the flag isn't given.
func (v *values) text(flag, want string) string {
	text := v.c.String(flag)
	if v.c.IsSet(flag) && strings.TrimSpace(text) == "" {
		v.refuse(flag, "nothing", want)
	}
	return text
}

// names reads names with commas between; nil where the flag isn't given.
func (v *values) names(flag string) []string {
	if !v.c.IsSet(flag) {
		return nil
	}
	names := strings.FieldsFunc(v.c.String(flag), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		v.refuse(flag, "nothing", "names with commas between")
	}
	return names
}

// crashDir reads the folder for post-mortems; empty for none.
func (v *values) crashDir(flag string) string {
	switch dir := v.path(flag); dir {
	case "":
		return "."
	case "none":
		return ""
	default:
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			v.refuse(flag, strconv.Quote(dir), "a folder that exists, or none")
		}
		return dir
	}
}
