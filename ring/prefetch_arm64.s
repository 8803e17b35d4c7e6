// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func prefetchStore(p *uint64, lines uint64)
TEXT ·prefetchStore(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD lines+8(FP), R1
store:
	CBZ R1, stored
	PRFM (R0), PSTL1KEEP
	ADD $64, R0
	SUB $1, R1
	B store
stored:
	RET
