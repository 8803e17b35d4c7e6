#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `go test FLAGS ./...`, without vet, which `make vet` is. Where CI is set, packages that failed are tested once more,
# alone: tests that start servers and kill processes have limits of time, and two packages' processes on two processors
# have gone past them. What passes then is told aloud: it is a defect of the test or of what it tests, to be found by
# running it beside a load.
#
#	GO=go             the command
#	CI=true           test again what failed; otherwise a failure is the end
#	PACKAGES=./...    what to test
#
# The last that it prints, when it fails, is what failed: of a long output often only the end is kept.
#
# There is no second try for what load doesn't explain: what doesn't build, a data race, a panic (time limits of a package
# are some), a broken invariant, a differing hash, or more than three packages.
set -u
go=${GO:-go}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

# tests runs them, shows what they print, and keeps it in a file.
tests() {
	file=$1
	shift
	echo "$go test -vet=off $*" | cut -c 1-200
	{ "$go" test -vet=off "$@" 2>&1; echo $? >"$dir/status"; } | tee "$dir/$file"
	return "$(cat "$dir/status")"
}

# fails ends the script with what is needed of its output: each place where something failed, with 10 lines before it and
# 20 behind it, 1,000 in all at most, and then the names.
fails() {
	places='^ *--- FAIL: |^panic: |^fatal error: |WARNING: DATA RACE|^# [a-z]'
	echo "==== where it failed"
	grep -E -B 10 -A 20 "$places" "$dir/$1" | cut -c 1-400 | head -1000
	echo "==== what failed"
	grep -E '^ *--- FAIL: |^FAIL	' "$dir/$1" | cut -c 1-400 | tail -100
	exit "$(cat "$dir/status")"
}

# shellcheck disable=SC2086 # one argument for each package
tests first "$@" ${PACKAGES:-./...} && exit 0
[ -n "${CI:-}" ] || fails first
failed=$(awk '$1 == "FAIL" && NF == 3 && $3 ~ /^[0-9.]+s$/ { print $2 }' "$dir/first")
whole=$(awk '$1 == "FAIL" && NF > 2 && $3 !~ /^[0-9.]+s$/ { print $2 }' "$dir/first")
never='DATA RACE|panic: |fatal error: |SIGSEGV|invariant broken|[Hh]ash'
if [ -z "$failed" ] || [ -n "$whole" ] || grep -Eq "$never" "$dir/first" || [ "$(echo "$failed" | wc -l)" -gt 3 ]; then
	fails first
fi
echo "tested again, alone:" $failed
# shellcheck disable=SC2086 # one argument for each package
tests second -count=1 -p 1 "$@" $failed || fails second
grep -E '^ *--- FAIL: |^FAIL	' "$dir/first" | sed 's/^/FAILED BESIDE OTHERS, PASSED ALONE: /'
