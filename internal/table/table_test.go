// SPDX-License-Identifier: Apache-2.0

package table

import (
	"bufio"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var s strings.Builder
	b := bufio.NewWriter(&s)
	New(5, "empty", "a").Write(b)
	tab := New(2, "köche", "count", "share")
	tab.Row("a", Count(1234567), Percent(0.125))
	tab.Row("bb")
	tab.Row("c")
	tab.Write(b)
	b.Flush()
	want := "\nköche      count   share\na      1,234,567  12.5 %\nbb\n  … and 1 row, which the JSON output has\n"
	if s.String() != want {
		t.Errorf("got\n%q\nwant\n%q", s.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	half := 0.0005
	for got, want := range map[string]string{
		Count(-1234):          "-1,234",
		Count(123):            "123",
		Number(1234.56):       "1,235",
		Number(0.012345):      "0.01235",
		Number(1e300):         "1e+300",
		Seconds(0):            "0 s",
		Seconds(1.5):          "1.5 s",
		Seconds(2.5e-6):       "2.5 µs",
		Seconds(2.5e-9):       "2.5 ns",
		SecondsOrNone(&half):  "500 µs",
		SecondsOrNone(nil):    "-",
		Rate(2.5e9):           "2.5 Gb/s",
		Rate(12):              "12 b/s",
		Plural(1, "link"):     "1 link",
		Plural(1200, "link"):  "1,200 links",
		Percent(1):            "100.0 %",
		Rate(155.52e6):        "155.5 Mb/s",
		Number(-1234567890.1): "-1,234,567,890",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSteps: the ends of an interval are told apart, however narrow it is.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		form            func(x, step float64) string
		low, high       float64
		wantLow, wantUp string
	}{
		{SecondsStep, 0.1100021, 0.1100149, "110.002 ms", "110.015 ms"},
		{SecondsStep, 0.05, 0.07, "50 ms", "70 ms"},
		{SecondsStep, 0, 1e-7, "0 s", "100 ns"},
		{SecondsStep, 0.99999, 1.00001, "999.99 ms", "1.00001 s"},
		{NumberStep, 12345.671, 12345.702, "12,345.671", "12,345.702"},
		{NumberStep, -12345.702, -12345.671, "-12,345.702", "-12,345.671"},
		{NumberStep, 1000, 3000, "1,000", "3,000"},
		{NumberStep, 7, 7, "7", "7"},
		{NumberStep, 1, 1 + 1e-16, "1", "1"},
		{PercentStep, 0.40012, 0.40016, "40.0120 %", "40.0160 %"},
		{PercentStep, 0.1, 0.9, "10.0 %", "90.0 %"},
	} {
		step := c.high - c.low
		if low, high := c.form(c.low, step), c.form(c.high, step); low != c.wantLow || high != c.wantUp {
			t.Errorf("%v to %v: %s to %s, want %s to %s", c.low, c.high, low, high, c.wantLow, c.wantUp)
		}
	}
}

// TestParseBytes: numbers of bytes with and without units, and what isn't one.
func TestParseBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"4096", 4096, true}, {"4k", 4096, true}, {"1M", 1 << 20, true}, {"1024K", 1 << 20, true},
		{"1G", 1<<20 + 1, true}, {"9999999999999999999", 1<<20 + 1, true}, {"99999999999G", 1<<20 + 1, true},
		{"-1", -1, true}, {"", 0, false}, {"K", 0, false}, {"1T", 0, false}, {"1 M", 0, false}, {"1.5M", 0, false},
	} {
		if n, ok := ParseBytes(c.text, 1<<20); n != c.want || ok != c.ok {
			t.Errorf("%q is %d, %v, want %d, %v", c.text, n, ok, c.want, c.ok)
		}
	}
}
