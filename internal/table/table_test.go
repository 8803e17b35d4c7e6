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
