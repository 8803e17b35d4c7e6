// SPDX-License-Identifier: Apache-2.0

//go:build !race

#include "textflag.h"

// func prefetch(two, one unsafe.Pointer)
//
// A prefetch of what isn't mapped does nothing.
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ two+0(FP), AX
	MOVQ one+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 (BX)
	RET

// func prefetchLines(from unsafe.Pointer, lines int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVQ from+0(FP), AX
	MOVQ lines+8(FP), CX
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  next
	RET
