//go:build lockstep_steps

#include "textflag.h"

// func shiftedClock() uintptr
TEXT ·shiftedClock(SB),NOSPLIT,$0-8
	LEAQ	shifted<>(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

// It is called as the kernel's function is, as C: DI is the clock, SI points to the
// seconds and nanoseconds of the answer.
TEXT shifted<>(SB),NOSPLIT|NOFRAME,$0
	PUSHQ	DI
	PUSHQ	SI
	SUBQ	$8, SP // C wants a multiple of 16
	MOVQ	·unshiftedClock(SB), AX
	CALL	AX
	ADDQ	$8, SP
	POPQ	SI
	POPQ	DI
	CMPL	DI, $0 // CLOCK_REALTIME
	JNE	done
	MOVQ	·clockShift(SB), CX
	ADDQ	CX, (SI)
done:
	RET
