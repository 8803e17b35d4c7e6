#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of the tree, one after the other, prints how many inputs each
# got through, and fails where one found something or got through too few: a target that
# stands still finds nothing and looks like one that has nothing to find.
#
#	FUZZTIME=2m      how long each target runs
#	FUZZFLOOR=500    least inputs a second; a target may ask for another one in a comment
#	                 "fuzz floor: N" in the line above its func, and says why there
#	FUZZ=Regexp      only targets whose "directory Name" matches
#
# -fuzzminimizetime 10x: by default the fuzzer takes up to a minute to make each input that
# reaches new code shorter, and runs nothing else meanwhile: 161 inputs in the first minute
# of a target that otherwise gets through 688,313.
#
# What is found stands in the target's testdata/fuzz: keep it there, it is a test case.
set -u
go=${GO:-go}
time=${FUZZTIME:-2m}
floor=${FUZZFLOOR:-500}
only=${FUZZ:-.}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM
failed=0 ran=0

# targets prints: directory, name, floor.
targets() {
	find . -name '*_test.go' ! -path '*/testdata/*' | sort |
	while read -r file; do
		awk -v dir="$(dirname "$file")" -v floor="$floor" '
			/^\/\/ fuzz floor: / { own = $4; next }
			/^func Fuzz[A-Za-z0-9_]*\(/ { name = $2; sub(/\(.*/, "", name); print dir, name, (own ? own : floor) }
			!/^\/\// { own = "" }' "$file"
	done
}

all=$(targets | grep -E -- "$only")
[ -n "$all" ] || { echo "no fuzz target matches $only"; exit 1; }

printf '%-18s %-20s %12s %10s %8s  %s\n' directory target inputs a\ second floor result
while read -r dir name least; do
	ran=$((ran + 1))
	status=0
	$go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10x "$dir" >"$log" 2>&1 </dev/null || status=$?
	# "fuzz: elapsed: 6s, execs: 25101 (4213/sec), …": the last line with inputs.
	set -- $(sed -n 's/^fuzz: elapsed: \([^,]*\), execs: \([0-9]*\).*/\1 \2/p' "$log" | tail -1)
	seconds=$(echo "${1:-0s}" | awk '{ h = m = s = 0; t = $0
		if (match(t, /[0-9]+h/)) { h = substr(t, RSTART, RLENGTH - 1); t = substr(t, RSTART + RLENGTH) }
		if (match(t, /[0-9]+m/)) { m = substr(t, RSTART, RLENGTH - 1); t = substr(t, RSTART + RLENGTH) }
		if (match(t, /[0-9.]+s/)) s = substr(t, RSTART, RLENGTH - 1)
		print h * 3600 + m * 60 + s }')
	inputs=${2:-0}
	rate=$(awk -v n="$inputs" -v s="$seconds" 'BEGIN { print int(s > 0 ? n / s : 0) }')
	result=ok
	# These bare words, without an input, are a race in the fuzzer's own end: its deadline
	# may be seen before the cancellation that should have hidden it.
	if [ "$status" -ne 0 ] && grep -q 'context deadline exceeded' "$log" && ! grep -qE 'Failing input|panic' "$log"; then
		status=0
	fi
	if [ "$status" -ne 0 ]; then
		result=FOUND
	elif [ "$rate" -lt "$least" ]; then
		result="TOO FEW"
	fi
	printf '%-18s %-20s %12s %10s %8s  %s\n' "$dir" "$name" "$inputs" "$rate" "$least" "$result"
	if [ "$result" != ok ]; then
		failed=$((failed + 1))
		sed 's/^/    /' "$log" | tail -40
	fi
done <<END
$all
END
echo "$ran targets, $failed failed"
[ "$failed" -eq 0 ]
