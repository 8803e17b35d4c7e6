#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `go test FLAGS ./...`, without vet, which `make vet` is. The packages that take longest come first: one of them
# begun last runs while all other processors wait for it. Three packages run for two processors, because tests of
# servers, kills and limits of time wait for most of theirs. Where CI is set, tests that failed run once more, alone:
# tests that start servers and kill processes have limits of time, and other packages' processes on the same processors
# have gone past them. What passes then is told aloud: it is a defect of the test or of what it tests, to be found by
# running it beside a load. All of a package is tested again where no test of it is named, or where internal/leaktest
# says that something was left behind: it judges only tests that passed.
#
#	GO=go             the command
#	CI=true           test again what failed; otherwise a failure is the end
#	PACKAGES=./...    what to test
#
# The last that it prints, when it fails, is what failed: of a long output often only the end is kept.
#
# There is no second try for what load doesn't explain: what doesn't build, a data race, a panic (time limits of a package
# are some), a broken invariant, hashes that differ, or more than three packages.
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

# differ succeeds if a failed test says in the given file that hashes differ: in words, or with two of 12 to 16 hexadecimal
# digits behind the word. What only shows a structure with a field of that name, or one hash, isn't meant: a run that
# ended early has none.
differ() {
	awk '
	function judge(said, n, word, i, w, first) {
		if (said ~ /(^|[^A-Za-z_])([Oo]ther|[Aa]nother) (trace )?hash(es)?([^A-Za-z_]|$)/) found = 1
		if (said ~ /hash(es)?(, [a-z ,]*)? differ/) found = 1
		if (said !~ /(^|[^A-Za-z_])[Hh]ash(es)?([^A-Za-z_]|$)/) return
		gsub(/0x/, " ", said)
		n = split(said, word, /[^0-9A-Za-z]+/)
		for (i = 1; i <= n; i++) {
			w = word[i]
			if (length(w) < 12 || length(w) > 16 || w ~ /[^0-9a-f]/) continue
			if (first == "") first = w
			if (w != first) found = 1
		}
	}
	# What one test says at one place: its line, and those further in.
	/^ *[A-Za-z0-9_]+[.]go:[0-9]+: / { judge(said); said = failed ? $0 : ""; next }
	/^ *--- / { judge(said); said = ""; failed = /--- FAIL: /; next }
	!/^ / { judge(said); said = ""; failed = 0; next }
	{ if (said != "") said = said "\n" $0 }
	END { judge(said); exit !found }' "$dir/$1"
}

longest="internal/launch app group cmd/disco-run fleet/executor/remote internal/docs internal/worker cluster
perf/chaos metastore/zk metastore/etcd model/service internal/bridge/relay sim internal/partition model/supply
graph/sqldb sim/dist internal/faulty internal/checkpoint internal/checkpoint/s3 graph/frame/parquetfile node"
# shellcheck disable=SC2086 # one argument for each package
packages=$("$go" list -e ${PACKAGES:-./...}) || exit 1
packages=$(echo "$packages" | awk -v longest="$longest" '
	BEGIN { n = split(longest, l) }
	{ r = n + 1; for (i = 1; i <= n; i++) if ($0 ~ "/" l[i] "$") r = i; print r, $0 }' | sort -sn -k 1,1 | cut -d " " -f 2)
# shellcheck disable=SC2086 # one argument for each package
tests first -p "$((3 * $(getconf _NPROCESSORS_ONLN) / 2))" "$@" $packages && exit 0
[ -n "${CI:-}" ] || fails first
failed=$(awk '$1 == "FAIL" && NF == 3 && $3 ~ /^[0-9.]+s$/ { print $2 }' "$dir/first")
whole=$(awk '$1 == "FAIL" && NF > 2 && $3 !~ /^[0-9.]+s$/ { print $2 }' "$dir/first")
never='DATA RACE|panic: |fatal error: |SIGSEGV|invariant broken'
if [ -z "$failed" ] || [ -n "$whole" ] || grep -Eq "$never" "$dir/first" || differ first ||
	[ "$(echo "$failed" | wc -l)" -gt 3 ]; then
	fails first
fi
echo "tested again, alone:" $failed
# Lines "package tests": a test's name has no slash, those of its parts have.
awk '
	match($0, /--- FAIL: [A-Za-z0-9_]+ /) { names = names "|" substr($0, RSTART + 10, RLENGTH - 11) }
	/leaktest:/ { whole = 1 }
	/^(ok|FAIL|[?])[ \t]/ {
		if ($1 == "FAIL" && NF == 3) print $2, whole || names == "" ? "." : "^(" substr(names, 2) ")$"
		names = ""; whole = 0
	}' "$dir/first" >"$dir/again"
while read -r package names; do
	tests second -count=1 -run "$names" "$@" "$package" </dev/null || fails second
	if grep -q 'no tests to run' "$dir/second"; then
		echo "$package: found no test $names" >&2
		exit 1
	fi
done <"$dir/again"
[ -s "$dir/again" ] || exit 1
grep -E '^ *--- FAIL: |^FAIL	' "$dir/first" | sed 's/^/FAILED BESIDE OTHERS, PASSED ALONE: /'
