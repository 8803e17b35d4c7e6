// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/setting"
)

// Texts are what a step exports that are no numbers, such as a value of a sweep that is a word. They stand beside
// Outputs, and are written with them.
type Texts map[string]string

// Export is what a step hands on under a name, as the field export has it:
//
//	FIGURE                  a figure of the results, of a step without a sweep
//	FIGURE at KEY=VALUE,…   of the point with these settings, which are written as in the sweep
//	min FIGURE              the least one of all points; max FIGURE the greatest
//	WHAT of min FIGURE      of the point at which FIGURE is least, or with max greatest: another figure, or the value
//	                        of a key of the sweep
type Export struct {
	What string   // a figure, or with Pick perhaps a key of the sweep
	Pick string   // "min", "max", or "": there is no choice
	By   string   // with Pick: the figure that decides
	At   []string // KEY=VALUE; none: there is one point, or Pick chooses it
}

// exportPick and exportAt are the forms of what a step with a sweep exports.
var (
	exportPick = regexp.MustCompile(`^(?:(\S.*\S|\S) of )?(min|max) (\S.*\S|\S)$`)
	exportAt   = regexp.MustCompile(`^(\S(?:.*?\S)??) at ((?:"(?:[^"\\]|\\.)*"|[^\s"])+ *=.*)$`)
)

// ParseExport reads what a step exports.
func ParseExport(text string) Export {
	if m := exportAt.FindStringSubmatch(text); m != nil { // first: a value may have words that choose
		return Export{What: m[1], At: settingsOf(m[2])}
	}
	if m := exportPick.FindStringSubmatch(text); m != nil {
		if m[1] == "" {
			m[1] = m[3]
		}
		return Export{What: m[1], Pick: m[2], By: m[3]}
	}
	return Export{What: text}
}

// settingsOf are settings with commas between, each as a point of a sweep has it. A text that isn't closed is one,
// which no point has.
func settingsOf(list string) []string {
	all, err := setting.Split(list)
	if err != nil {
		return []string{list}
	}
	for i, one := range all {
		if key, value, ok := setting.KeyOf(one); ok {
			all[i] = key + "=" + value
		}
	}
	return all
}

// Figures are those that must be known of each point for it; keys are those of the sweep.
func (e *Export) Figures(keys []string) (all []string) {
	if !slices.Contains(keys, e.What) {
		all = append(all, e.What)
	}
	if e.Pick != "" && e.By != e.What {
		all = append(all, e.By)
	}
	return all
}

// SweepKeys are the keys of the axes of a sweep.
func SweepKeys(sweep []string) (keys []string) {
	for _, axis := range sweep {
		key, _, _ := setting.KeyOf(axis)
		keys = append(keys, key)
	}
	return keys
}

// checkExport refuses what a step can't export; points are those of its sweep.
func (s *Step) checkExport(name string) error {
	e := ParseExport(s.Export[name])
	sweeps := len(s.Sweep) > 0
	switch {
	case len(e.At) > 0 && sweeps && len(s.Points) > 0: // else its points aren't known yet
		if s.pointAt(e.At) < 0 {
			return fmt.Errorf("export: %s: found the settings %.200q, want those of one point of the sweep: %s", name,
				strings.Join(e.At, ","), strings.Join(s.Sweep, " "))
		}
	case len(e.At) > 0 && !sweeps, e.Pick != "" && !sweeps:
		return fmt.Errorf("export: %s: found %.200q of a step without a sweep, want the name of a figure alone", name,
			s.Export[name])
	case sweeps && e.Pick == "" && len(e.At) == 0:
		return fmt.Errorf("export: %s: found %.200q with a sweep, whose points have figures of their own each: want "+
			"min %s, max %s, KEY of min %s for the value of the sweep at that point, or %s at KEY=VALUE", name,
			e.What, e.What, e.What, e.What, e.What)
	}
	return nil
}

// pointAt is the only point that has some settings; -1: none, or several.
func (s *Step) pointAt(settings []string) int {
	found := -1
	for i, point := range s.Points {
		has := func(one string) bool { return slices.Contains(point, one) }
		if !slices.ContainsFunc(settings, func(one string) bool { return !has(one) }) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// Found is what the results of a point have: figures and keys of the sweep by name, each a float64 or a string.
type Found map[string]any

// Exports are what a step exports, of what its points have. The first point counts where several are least or greatest.
func (s *Step) Exports(points []Found) (Outputs, Texts, error) {
	out, texts := Outputs{}, Texts{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Export)) {
		x, err := s.exportOf(s.Export[name], points)
		switch x := x.(type) {
		case float64:
			out[name] = x
		case string:
			texts[name] = x
			err = errors.Join(err, line("a text", x, maxName))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("export: %s: %w", name, err))
		}
	}
	if len(out) == 0 {
		out = nil
	}
	if len(texts) == 0 {
		texts = nil
	}
	return out, texts, errors.Join(errs...)
}

// exportOf is one of them: a float64, or a string.
func (s *Step) exportOf(text string, points []Found) (any, error) {
	e, at := ParseExport(text), 0
	switch {
	case len(points) != len(s.Points):
		return nil, fmt.Errorf("found results of %d points, want %d", len(points), len(s.Points))
	case len(e.At) > 0:
		at = s.pointAt(e.At)
	case e.Pick != "":
		best := math.NaN()
		for i, point := range points {
			x, ok := point[e.By].(float64)
			if !ok {
				return nil, fmt.Errorf("found no number %s at point %d of %d", e.By, i+1, len(points))
			}
			if i == 0 || e.Pick == "min" && x < best || e.Pick == "max" && x > best {
				best, at = x, i
			}
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("found no point of %q", text)
	}
	x, ok := points[at][e.What]
	if !ok {
		return nil, fmt.Errorf("found no %s at point %d of %d", e.What, at+1, len(points))
	}
	return x, nil
}

// Value is an output as it stands in the place of an import: a number in all its digits, or a text.
func Value(name string, out Outputs, texts Texts) (text string, ok bool) {
	if x, ok := out[name]; ok {
		return strconv.FormatFloat(x, 'g', -1, 64), true
	}
	text, ok = texts[name]
	return text, ok
}

// check refuses what can't be a step's outputs that are texts; only what is Finished has some.
func (t Texts) check(state PieceState) error {
	errs := []error{number("outputs that are texts", len(t), 0, outputsMost)}
	for name, text := range t {
		errs = append(errs, line("an output", name, maxName), line("the output "+name, text, maxName))
	}
	if len(t) > 0 && state != Finished {
		errs = append(errs, fmt.Errorf("outputs: found texts of a piece that is %v, want them with %v", state,
			Finished))
	}
	return errors.Join(errs...)
}
