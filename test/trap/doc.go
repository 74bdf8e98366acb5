// Package trap hands system calls of a command, unmodified, to a test: what is called,
// with which arguments, before the kernel does anything.
//
//	t, _ := trap.Start([]int{unix.SYS_RENAMEAT, unix.SYS_FSYNC}, func(c *trap.Call) {
//		path, _ := c.Memory().Text(c.Arguments[1])
//	})
//	cmd := exec.Command("accelmux", "run"); t.Wrap(cmd); cmd.Start()
//
// It is a filter of system calls (seccomp) in that command and all that it starts, which
// needs no rights. The kernel makes each call when the test's function has returned, unless
// that kills the caller, for whom the call then never happened.
//
// A program that imports this package is its own wrapper. It needs Linux 5.19.
package trap
