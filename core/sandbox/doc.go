// Package sandbox starts a program with the rights that it needs and no others.
//
// Go cannot restrict a child between fork and exec, so the program is started by a shim: this process's
// own program once more. The shim reads a plan, restricts itself, measures what the kernel took, and
// executes the program:
//
//	Prepare ─► fork ─► shim: plan ─► restrictions ─► report ─► exec ─► the program
//	                                                   │
//	Wait ◄─────────────────────────────────────────────┘
//
// A measure is in force if a call that it forbids fails, or if /proc shows it. What the kernel or the
// agent's rights do not give is reported with the reason, and refuses the start only in the mode
// Required. Some measures need a right of the agent, none needs one of the program.
//
// While the program runs, Answer answers which processes have its device nodes open, as it may inspect none.
//
// The package does not know what a program needs: the caller passes it. It does not watch the program.
package sandbox
