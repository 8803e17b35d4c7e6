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
