#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the memory packages as arm64 programs: on an arm64 machine directly,
# elsewhere under qemu's user-mode emulation, and not at all, saying so, where that is
# not installed (Debian: qemu-user). `make test-arm64` calls it from the project's root.
#
# What it shows: arm64's own assembly (fences, release stores, pauses) assembles and does
# what it should, layouts and alignment agree, and no code depends on an instruction or a
# system call that only amd64 has. What it can't show: arm64's weaker memory order, because
# the emulator keeps the order of the processor it runs on wherever that is stronger. Only
# an arm64 machine shows that, and the models that the tests enumerate.
set -eu

GO=${GO:-go}
packages="./ring ./internal/lane ./shm ./internal/counters ./internal/idle ./ipc ./envelope ./internal/aligned ./internal/race"

case $(uname -m) in
aarch64 | arm64)
	exec "$GO" test -short $packages
	;;
esac

qemu=
for name in qemu-aarch64 qemu-aarch64-static; do
	if command -v "$name" >/dev/null 2>&1; then
		qemu=$name
		break
	fi
done
if [ -z "$qemu" ]; then
	echo "SKIPPED: the tests as arm64 programs, because qemu-aarch64 is not installed (Debian: qemu-user)"
	exit 0
fi

# Left out: tests that start a copy of themselves, which the kernel of another processor
# can't do; the one that counts page faults, because those are the emulator's own; and the
# one that sends too many files at a time, which the emulator cuts without saying so.
own='TestProcess|TestSenderIsKilled|TestReceiverIsKilled'
emulator='TestPopulated|TestBadMeetings'
CGO_ENABLED=0 GOARCH=arm64 exec "$GO" test -short -timeout 10m -exec "$qemu" \
	-skip "^($own|$emulator)" $packages
