// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func prefetchStore(p *uint64, lines uint64)
// The assembler has no name for PREFETCHW (AX). Processors without it do nothing there.
TEXT ·prefetchStore(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ lines+8(FP), BX
store:
	SUBQ $1, BX
	JLT stored
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08
	ADDQ $64, AX
	JMP store
stored:
	RET
