// Package clock steps the wall clock of one running process, as that of a machine is when
// somebody sets it, without touching anybody else's: for tests.
//
// Only Linux on x86-64 is known to it. Elsewhere, and where one process may not write
// another's memory, it says so.
package clock
