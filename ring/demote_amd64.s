// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func hasDemote() bool
TEXT ·hasDemote(SB), NOSPLIT, $0-1
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JLT none
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $25, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET
none:
	MOVB $0, ret+0(FP)
	RET

// func ticks() uint64
TEXT ·ticks(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func demote(p *uint64, lines uint64)
// The assembler has no name for CLDEMOTE (AX). It is a NOP with a hint: processors without it do nothing there.
TEXT ·demote(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ lines+8(FP), BX
give:
	SUBQ $1, BX
	JLT given
	BYTE $0x0F; BYTE $0x1C; BYTE $0x00
	ADDQ $64, AX
	JMP give
given:
	RET
