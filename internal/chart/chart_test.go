// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

func number(x float64) string { return fmt.Sprintf("%g <s>", x) }

// A page is well-formed XML whatever the texts are, has every point inside of the axes, and leaves out what can't be
// drawn.
func TestSVG(t *testing.T) {
	full := Line{Name: `a & "b" <c>`}
	for i := range 5 {
		full.Add(float64(i), float64(i*i))
	}
	full.Add(math.NaN(), 1)
	full.Add(1, math.Inf(1))
	many := Line{Name: "many"}
	for i := range dotsMax + 1 {
		many.Add(float64(i)/4, 3)
	}
	charts := []Chart{
		{Title: "one", Lines: []Line{full, many}, XTick: 1, YTick: 4, XText: number, YText: number},
		{Title: "rows", XTick: 1, XText: number, Rows: []Row{{"<r>", 1, 2, 3, "1 & 2"}, {"alone", 2, 2, math.NaN(), ""},
			{"nothing", math.Inf(1), 1, 1, ""}}},
		{Title: "none", XTick: 1, YTick: 1, XText: number, YText: number},
	}
	var text strings.Builder
	if err := SVG(&text, "title <&>", charts); err != nil {
		t.Fatal(err)
	}
	decoder, circles := xml.NewDecoder(strings.NewReader(text.String())), 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 7 {
		t.Errorf("%d dots, want 7: one at each point of the short line, and two of rows", circles)
	}
	for _, want := range []string{`<circle cx="300.0" cy="61"`, "M300.0 61H530.0", "M300.0 61H760.0", "M760.0 54v14",
		`<circle cx="530.0" cy="83"`, `height="956"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s isn't in the picture", want)
		}
	}
	if strings.Contains(text.String(), "NaN") || strings.Contains(text.String(), "Inf") {
		t.Error("a value that isn't finite is in the text")
	}
	if !strings.Contains(text.String(), "M80.0 330.0") || !strings.Contains(text.String(), "760.0 50.0") {
		t.Error("the least point isn't at the lower left, or the greatest at the upper right")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// An error of the writer is returned.
func TestWriteError(t *testing.T) {
	if err := SVG(broken{}, "", nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("SVG: %v", err)
	}
	if err := HTML(broken{}, "", nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("HTML: %v", err)
	}
}
