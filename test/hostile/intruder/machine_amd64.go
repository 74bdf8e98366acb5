package intruder

import "golang.org/x/sys/unix"

func compat() int32

// otherCalls succeeds if a system call of another ABI works.
func otherCalls() error {
	const x32 = 0x40000000
	if err := call(x32 | unix.SYS_GETPID); err == nil {
		return nil
	}
	return start("compat", nil) // a kernel without that ABI ends the process
}

// compatStatus is the exit status of a child.
func compatStatus() int {
	if compat() != int32(unix.Getpid()) {
		return 1
	}
	return 0
}

// ioPorts gives the thread, which ends then, a port that has no use.
func ioPorts() error {
	return onThread(func() error { return call(unix.SYS_IOPERM, 0x80, 1, 1) })
}
