#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Renews cmd/disco-bench/default.pgo, from benchmarks of the event path, and cmd/disco-run/default.pgo: builds disco-run
# without a profile, runs the mix below with one worker and with two, and merges the CPU profiles of the workers. Each run
# takes about as long as the others, so that none outweighs them.
# docs/HACKING.md, "Profile for the compiler", says when. Run it from the root of the tree (make pgo).
set -eu
GO=${GO:-go}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

CGO_ENABLED=0 "$GO" test -trimpath -pgo=off -run '^$' -bench '^Benchmark(Trip|Inline)$' -benchtime 5s \
	-cpuprofile "$dir/trip.pprof" -o "$dir/trip.test" ./ingress
"$GO" -C perf/profile run -buildvcs=false . -merge "$dir/trip.pgo" "$dir/trip.pprof"
mv "$dir/trip.pgo" cmd/disco-bench/default.pgo

CGO_ENABLED=0 "$GO" build -buildvcs=false -trimpath -pgo=off -o "$dir/disco-run" ./cmd/disco-run
"$GO" run -buildvcs=false ./perf/gen >"$dir/big.yml"

# sample NAME ARGUMENTS: one run, whose profiles go to a folder of their own
sample() {
	name=$1
	shift
	echo "$name, $workers workers"
	"$dir/disco-run" "$@" --workers "$workers" --cpuprofile "$dir/$name-$workers" >/dev/null
}
for workers in 1 2; do
	sample service run "$dir/big.yml" --horizon 6
	sample phold phold --end 2000
	sample phold-large phold --lps 100000 --end 8
	sample backbone run examples/backbone.yml
	sample jackson run examples/jackson.yml --horizon 5000000
	sample shop run examples/shop.yml --horizon 2000
done
"$GO" -C perf/profile run -buildvcs=false . -merge "$dir/default.pgo" "$dir"/*/worker-*.pprof

# fused FILE: the lines of which the arm64 program FILE fuses a product into a sum. What is inlined decides about that,
# and so the profile might: a sum that is rounded once instead of twice has another last bit.
fused() {
	"$GO" tool objdump -s 'disco-sim/disco|gonum|math|hdrhistogram' "$1" |
		awk '/FN?M(ADD|SUB)[DS] / { print $1 }' | sort -u
}
for pgo in off "$dir/default.pgo"; do
	CGO_ENABLED=0 GOARCH=arm64 "$GO" build -buildvcs=false -trimpath -pgo="$pgo" -o "$dir/arm64" ./cmd/disco-run
	fused "$dir/arm64" >"$dir/fused.$(basename "$pgo")"
done
if ! [ -s "$dir/fused.off" ] || ! diff "$dir/fused.off" "$dir/fused.default.pgo"; then
	echo "pgo: on arm64 this profile changes results in these lines; the old one stays." \
		"Write float64(x*y) there, or take away what keeps the call from being inlined without a profile." >&2
	exit 1
fi
mv "$dir/default.pgo" cmd/disco-run/default.pgo
ls -l cmd/disco-run/default.pgo
