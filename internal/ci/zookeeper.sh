#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs ZooKeeper, which the tests of metastore/zk start, where this may: as root, with apt. It never
# fails: where ZooKeeper can't be had this says so, and those tests skip.
#
#	JAR=/usr/share/java/zookeeper.jar    what tells that it is there
set -u
jar=${JAR:-/usr/share/java/zookeeper.jar}
skip() {
	echo "SKIPPED: ZooKeeper isn't installed: $1; the tests that need it skip"
	exit 0
}
[ ! -e "$jar" ] || exit 0
[ "$(id -u)" = 0 ] || skip "this isn't root"
command -v apt-get >/dev/null || skip "there is no apt-get"
export DEBIAN_FRONTEND=noninteractive
# The package list may be missing or old: the second attempt is with a new one.
get() { timeout 300 apt-get install -y --no-install-recommends zookeeper >/dev/null 2>&1; }
get || { timeout 120 apt-get update >/dev/null 2>&1 && get; } || skip "apt-get can't install the package zookeeper"
[ -e "$jar" ] || skip "the package zookeeper has no $jar"
echo "installed ZooKeeper"
