// Package trap hands system calls of a command, unmodified, to a test: what is called,
// with which arguments, before the kernel does anything.
//
//	t, _ := trap.Start(trap.Calls(unix.SYS_RENAMEAT, unix.SYS_FSYNC), func(c *trap.Call) trap.Answer {
//		path, _ := c.Memory().Text(c.Arguments[1])
//		return trap.Kernel // goes on as if nobody had looked
//	})
//	cmd := exec.Command("accelmux", "run"); t.Wrap(cmd); cmd.Start()
//
// It is a filter of system calls (seccomp) in that command and all that it starts, which
// needs no rights. To the caller each is the real system call, that takes its time. What
// is a call to whom is the test's to say: it may answer in the kernel's place, or kill
// the caller, for whom the call then never happened.
//
// A program that imports this package is its own wrapper. It needs Linux 5.19.
package trap
