// SPDX-License-Identifier: Apache-2.0

// Command profile shows in which packages CPU time was spent: it sums the samples of CPU profiles by the package of
// the innermost function, and, for time in the runtime and in libraries, names the package that called them too.
//
//	bin/disco-run run FILE --cpuprofile DIR
//	make profile PROFILES='DIR/*'
//
// With -merge FILE it writes the profiles' sum to FILE instead, as the compiler takes it (make pgo).
//
// It is a module of its own, so that users of disco don't need the library that reads profiles.
//
// Guarantee: every sample is counted exactly once in "own" and at least once in "with
// what it calls"; "own" sums to 100 %.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/google/pprof/profile"
)

const module = "github.com/disco-sim/disco/"

func main() {
	merged := flag.String("merge", "", "write the sum of the profiles to `FILE`, and no table")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: profile [-merge FILE] PROFILE...")
		os.Exit(2)
	}
	var all []*profile.Profile
	for _, name := range flag.Args() {
		p, err := read(name)
		if err != nil {
			fail(err)
		}
		all = append(all, p)
	}
	if *merged != "" {
		if err := merge(*merged, all); err != nil {
			fail(err)
		}
		return
	}
	sums := map[string]*times{}
	var total int64
	for _, p := range all {
		total += add(sums, p)
	}
	write(sums, total)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "profile:", err)
	os.Exit(2)
}

// merge writes the sum of the profiles to a file, without what the compiler doesn't look at: addresses, labels, and
// where and when the program was run.
func merge(name string, all []*profile.Profile) error {
	for _, p := range all {
		for _, l := range p.Location {
			l.Address, l.Mapping = 0, nil
		}
		for _, s := range p.Sample {
			s.Label, s.NumLabel, s.NumUnit = nil, nil, nil
		}
		p.Mapping, p.Comments = nil, nil
	}
	sum, err := profile.Merge(all)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	sum.TimeNanos = 0
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	if err := sum.Write(f); err != nil {
		f.Close()
		return fmt.Errorf("merge: %s: %w", name, err)
	}
	return f.Close()
}

// times are nanoseconds of CPU.
type times struct{ own, with int64 }

func read(name string) (*profile.Profile, error) {
	text, err := infile.Read(name, infile.Kind{Name: "a CPU profile", BytesMax: 256 << 20})
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// add counts a profile's samples and returns their sum.
func add(sums map[string]*times, p *profile.Profile) (total int64) {
	at := func(pkg string) *times {
		if sums[pkg] == nil {
			sums[pkg] = &times{}
		}
		return sums[pkg]
	}
	value := len(p.SampleType) - 1 // cpu nanoseconds
	for _, s := range p.Sample {
		seen := map[string]bool{}
		first := true
		for _, loc := range s.Location {
			for _, line := range loc.Line {
				r := packageOf(line.Function.Name)
				if first {
					at(r).own += s.Value[value]
					first = false
				}
				if !seen[r] {
					at(r).with += s.Value[value]
					seen[r] = true
				}
			}
		}
		total += s.Value[value]
	}
	return total
}

// packageOf is the package of a function: one of disco, or "runtime", "syscall" and so on for the others.
func packageOf(function string) string {
	if rest, ours := strings.CutPrefix(function, module); ours {
		slash := strings.LastIndex(rest, "/") + 1
		return rest[:slash+strings.Index(rest[slash:]+".", ".")]
	}
	slash := strings.LastIndex(function, "/") + 1
	return "(" + function[:slash+strings.Index(function[slash:]+".", ".")] + ")"
}

func write(sums map[string]*times, total int64) {
	packages := make([]string, 0, len(sums))
	for r := range sums {
		packages = append(packages, r)
	}
	sort.Slice(packages, func(i, j int) bool {
		a, b := sums[packages[i]], sums[packages[j]]
		if a.own != b.own {
			return a.own > b.own
		}
		return packages[i] < packages[j]
	})
	fmt.Printf("%-40s %8s %24s\n", "package", "own", "with what it calls")
	for _, r := range packages {
		s := sums[r]
		fmt.Printf("%-40s %6.1f %% %22.1f %%\n", r, 100*float64(s.own)/float64(total),
			100*float64(s.with)/float64(total))
	}
	fmt.Printf("%.2f s of CPU\n", float64(total)/1e9)
}
