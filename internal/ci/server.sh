#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a server, or another program, that tests start, where this may: as root, with apt. It never fails: where the server can't be had
# this says so, and those tests skip.
#
#	server.sh ZooKeeper zookeeper /usr/share/java/zookeeper.jar
#
# NAME PACKAGE FILE...: one of the files, or of a pattern's, tells that it is there.
set -u
name=$1 package=$2
shift 2
there() {
	for file in "$@"; do [ ! -e "$file" ] || return 0; done
	return 1
}
skip() {
	echo "SKIPPED: $name isn't installed: $1; the tests that need it skip"
	exit 0
}
! there "$@" || exit 0
[ "$(id -u)" = 0 ] || skip "this isn't root"
command -v apt-get >/dev/null || skip "there is no apt-get"
export DEBIAN_FRONTEND=noninteractive
# The package list may be missing or old: the second attempt is with a new one.
get() { timeout 300 apt-get install -y --no-install-recommends "$package" >/dev/null 2>&1; }
get || { timeout 120 apt-get update >/dev/null 2>&1 && get; } || skip "apt-get can't install the package $package"
set -- $(echo "$@") # patterns anew
there "$@" || skip "the package $package has no $1"
echo "installed $name"
