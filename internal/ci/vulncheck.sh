#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Looks for known vulnerabilities in what the two commands and the packages call. The list of them
# is on the network: where it can't be reached the check is skipped, and says so. A run with
# VULN=required fails there instead. Every other failure fails.
#
#	VULN=required    not to reach the list is a failure
#	VULNTIME=10      seconds until the list counts as not reached
set -u
go=${GO:-go}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

# What govulncheck says when the network is at fault. It has no exit status of its own for that.
unreachable='^govulncheck: fetching vulnerabilities: (Get "|HTTP GET .* returned unexpected status|no answer)'

# Built before, so that the limit is on the list only.
tool=$($go tool -modfile=internal/tools/go.mod -n govulncheck) || exit 1

# check runs the command, and ends the script where the list wasn't reached.
check() {
	status=0
	"$@" >"$log" 2>&1 || status=$?
	if [ "$status" -eq 124 ]; then
		echo "govulncheck: fetching vulnerabilities: no answer in time" >>"$log"
	fi
	if [ "$status" -ne 0 ] && why=$(grep -m 1 -E "$unreachable" "$log"); then
		[ "${VULN:-}" != required ] || { echo "FAILED: known vulnerabilities can't be looked up: $why"; exit 1; }
		echo "SKIPPED: known vulnerabilities, because their list can't be reached: $why"
		exit 0
	fi
}

# Of the modules alone it knows at once what it found: it is asked first whether it gets an answer, because a
# connection that nobody answers is waited for. What it finds doesn't count: not all of a module is called.
check timeout "${VULNTIME:-10}" $tool -scan module
check timeout 600 $tool "$@" ./...
cat "$log"
exit "$status"
