// SPDX-License-Identifier: Apache-2.0

package local

import (
	"math"
	"testing"

	"github.com/disco-sim/disco/fleet"
)

func TestVitalsText(t *testing.T) {
	for _, c := range []struct {
		text string
		want busy
	}{
		{"cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 1 1 1 1\n", busy{all: 531, idle: 450}},
		{"cpu0 10 20 30 400 50 6 7 8\n", busy{}},
		{"cpu  10 20 x 400 50 6 7 8\n", busy{}},
		{"", busy{}},
	} {
		if got := parseBusy(c.text); got != c.want {
			t.Errorf("of %q found %+v, want %+v", c.text, got, c.want)
		}
	}
	for text, want := range map[string]float64{
		"MemTotal:        1000 kB\nMemFree:  10 kB\nMemAvailable:    250 kB\n": 0.75,
		"MemTotal:        1000 kB\nMemAvailable:    2500 kB\n":                 0,
		"MemAvailable:    2500 kB\n":                                           0,
		"MemTotal: x kB\n":                                                     0,
	} {
		if got := parseMemory(text); math.Abs(got-want) > 1e-9 {
			t.Errorf("of %q found %v, want %v", text, got, want)
		}
	}
}

// TestVitals has this machine's own be shares, and its memory and disk be in use.
func TestVitals(t *testing.T) {
	l := &Local{o: Options{Work: t.TempDir()}}
	var v fleet.Vitals
	l.Vitals(&v)
	if v.Processors != 0 || v.Memory <= 0 || v.Memory > 1 || v.Disk <= 0 || v.Disk > 1 {
		t.Errorf("found %+v, want shares of memory and disk, and processors not known yet", v)
	}
}
