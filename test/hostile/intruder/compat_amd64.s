#include "textflag.h"

// func compat() int32
// It calls getpid as a 32-bit program does: number 20, by interrupt 0x80.
TEXT ·compat(SB), NOSPLIT, $0-4
	MOVL $20, AX
	INT  $0x80
	MOVL AX, ret+0(FP)
	RET
