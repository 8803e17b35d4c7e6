// SPDX-License-Identifier: Apache-2.0

//go:build !race

#include "textflag.h"

// func storeRelease(p *uint64, v uint64)
//
// Stores are never reordered with earlier loads or stores on amd64.
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET
