#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the packages whose own code a build tag changes: those that have files with the tag, and those that import, in
# their tests too, a package that is there to tell them (its on.go has the tag). What stands above them runs the same
# code in whole programs, which takes minutes more.
#
#	internal/ci/tagged.sh invariants
set -eu
go=${GO:-go}
module=$($go list -m)
files=$(grep -rlE "^//go:build (.*[^a-z])?$1\$" --include='*.go' .) || { echo "no file has the tag $1" >&2; exit 1; }
packages=$(echo "$files" | sed "s|^\\./\\(.*\\)/[^/]*\$|$module/\\1|" | sort -u)
asked=$(echo "$files" | sed -n "s|^\\./\\(.*\\)/on\\.go\$|$module/\\1|p")
# Lines "package: its imports".
list=$($go list -tags "$1" -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{range .Imports}} {{.}}{{end}}'\
'{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}{{end}}' ./...)
echo "$list" | awk -v packages="$packages" -v asked="$asked" '
	BEGIN { n = split(packages, p, "\n"); for (i = 1; i <= n; i++) own[p[i]] = 1
		n = split(asked, p, "\n"); for (i = 1; i <= n; i++) is[p[i]] = 1 }
	$1 in own { print $1; next }
	{ for (i = 2; i <= NF; i++) if ($i in is) { print $1; next } }'
