package text

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.642857: "0.64286", 1234.5: "1234.5", 3276717: "3,276,717", -1e6: "-1,000,000", 1e20: "1e+20"} {
		if got := Number(x); got != want {
			t.Errorf("Number(%v) is %q, want %q", x, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := NewTable("name", "µ")
	var b strings.Builder
	if err := table.Write(&b); err != nil || b.Len() > 0 {
		t.Errorf("a head alone gives %q, %v", b.String(), err)
	}
	table.Row("é", "10")
	table.Row("longer", "")
	want := "name     µ\né       10\nlonger\n"
	if err := table.Write(&b); err != nil || b.String() != want {
		t.Errorf("got\n%q, want\n%q (%v)", b.String(), want, err)
	}
	for i := range 100 {
		table.Row(fmt.Sprint(i))
	}
	b.Reset()
	if err := table.Write(&b); err != nil || !strings.HasSuffix(b.String(), "  … and 42 rows, which the JSON output has\n") {
		t.Errorf("got\n%s", b.String())
	}
}
