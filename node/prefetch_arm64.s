// SPDX-License-Identifier: Apache-2.0

//go:build !race

#include "textflag.h"

// func prefetch(two, one unsafe.Pointer)
//
// A prefetch of what isn't mapped does nothing.
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD two+0(FP), R0
	MOVD one+8(FP), R1
	PRFM (R0), PLDL1KEEP
	PRFM 64(R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	RET

// func prefetchLines(from unsafe.Pointer, lines int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVD from+0(FP), R0
	MOVD lines+8(FP), R1
next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUB  $1, R1
	CBNZ R1, next
	RET
