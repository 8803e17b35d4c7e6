#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the packages whose tests a build tag changes: those that have files with the tag, and those that have such
# packages under them. The tests of all others are the same programs with the tag and without it.
#
#	internal/ci/tagged.sh invariants
set -eu
go=${GO:-go}
module=$($go list -m)
tagged=$(grep -rlE "^//go:build (.*[^a-z])?$1\$" --include='*.go' . | sed "s|^\\./\\(.*\\)/[^/]*\$|$module/\\1|" | sort -u)
[ -n "$tagged" ] || { echo "no file has the tag $1" >&2; exit 1; }
# Lines "package of a test: all that is in it". A package that is compiled for a test has the test's name behind it.
list=$($go list -test -tags "$1" -f '{{if .ForTest}}{{else}}{{.ImportPath}}{{range .Deps}} {{.}}{{end}}{{end}}' ./...)
echo "$list" | awk -v tagged="$tagged" '
	BEGIN { n = split(tagged, t, "\n"); for (i = 1; i <= n; i++) is[t[i]] = 1 }
	$1 ~ /\.test$/ { for (i = 2; i <= NF; i++) if ($i in is) { sub(/\.test$/, "", $1); print $1; next } }'
