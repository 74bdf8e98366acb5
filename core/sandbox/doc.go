// Package sandbox starts a program with the rights that it needs and no others.
//
// Go cannot restrict a child between fork and exec, so this process's own executable is started first,
// as a shim. The shim reads a plan, restricts itself, measures what is in force, and executes the program:
//
//	Prepare ─► fork ─► shim: plan ─► restrictions ─► report ─► exec ─► the program
//	                                                   │
//	Wait ◄─────────────────────────────────────────────┘
//
// Files, Ioctls, Processes and Network are in force if a call that they forbid fails, Privileges,
// Capabilities and SystemCalls if /proc shows them, and the others if the calls that make them succeed. A
// measure that is not in force is reported with the reason; in the mode Required it refuses the start. User
// and Mounts need capabilities of this process, and Cgroup a delegated cgroup.
//
// While the program runs, Watch waits for files that appear, and that the program was given but only another process of it can open: Landlock's
// rules are for files that exist when they are made. Patterns are expanded here and nowhere else, by the shim and by Watch;
// for a program in another container, in that container.
//
// The package does not know what a program needs: the caller passes it. It does not monitor the program.
package sandbox
