#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the packages in which the race detector can find something: those whose own code, or tests, start goroutines or
# guard what goroutines share, without those whose paths match a pattern. A package that only calls others has no race
# of its own: those of what it calls are found by the tests of that, and whole programs take minutes to show no more.
#
#	internal/ci/raced.sh '/disco/(examples|model|perf)/'
set -eu
go=${GO:-go}
list=$($go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./...)
marks='^[[:space:]]*(defer )?go ([A-Za-z_.]+[[(]|func)|[^A-Za-z]Go\(|[.]Parallel\(\)|[.]AfterFunc\(|[.]RunParallel\(|'
marks=$marks'iter[.]Pull|"(sync|sync/atomic|net|net/http|net/http/httptest|os/signal|[a-z./]*/errgroup)"$'
echo "$list" | while read -r package dir; do
	if grep -Eqs "$marks" "$dir"/*.go; then echo "$package"; fi
done | grep -Ev "${1:-^$}"
