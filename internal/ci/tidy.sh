#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says what `go mod tidy` would change in the modules whose folders are given, and fails
# where that is anything. Where a module that tidy wants to see can be had neither from the
# cache nor over the network, it says so and goes on: that is no fault of the tree.
set -u
go=${GO:-go}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM
failed=0
for dir in "$@"; do
	if diff=$($go -C "$dir" mod tidy -diff 2>"$log"); then
		echo "ok  	tidy $dir"
	elif [ -z "$diff" ] && grep -qE 'dial tcp|GOPROXY|connection refused|i/o timeout|no such host' "$log"; then
		echo "SKIPPED: go mod tidy in $dir, because modules can't be downloaded here: $(tail -1 "$log")"
	else
		echo "$dir/go.mod is not tidy (go -C $dir mod tidy mends it):"
		cat "$log"
		echo "$diff"
		failed=1
	fi
done
exit $failed
