// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// func fullFence()
// DMB ISH: all accesses before, before all accesses after, in the domain that
// all cores of the machine share.
TEXT ·fullFence(SB), NOSPLIT, $0-0
	DMB $0xb
	RET

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	YIELD
	RET
