package fpgadevice

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/trap"
)

// SkipWithoutFilter skips a test where the kernel cannot hand system calls to another
// process.
func SkipWithoutFilter(tb testing.TB) {
	tb.Helper()
	trap.Skip(tb)
}

// Wrap has a command that is not started yet, with all that it starts, meet the device.
func (d *Device) Wrap(cmd *exec.Cmd) error { return d.trap.Wrap(cmd) }

// Program writes a program that is another one, wrapped: for who starts programs by
// their names in a directory, as the agent does. The other's path is absolute.
func (d *Device) Program(path, other string) error { return d.trap.Program(path, other) }

// filter hands over ioctls of the drivers' types, and what has to do with files of sysfs
// that are written.
func filter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		mask   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data; the lower half of an argument comes first on
		// these machines.
		number, arch, first, second, third = 0, 4, 16, 24, 32
	)
	return []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equals, K: trap.Architecture(), Jf: 15},
		{Code: load, K: number},
		{Code: equals, K: unix.SYS_IOCTL, Jt: 2},
		{Code: equals, K: unix.SYS_OPENAT, Jt: 5},
		{Code: equals, K: unix.SYS_WRITE, Jt: 7, Jf: 11},
		{Code: load, K: second}, // ioctl: the type of the request
		{Code: mask, K: 0xff00},
		{Code: equals, K: typeDFL << 8, Jt: 7},
		{Code: equals, K: typeOPAE << 8, Jt: 6, Jf: 7},
		{Code: load, K: third}, // openat: for writing only
		{Code: mask, K: unix.O_ACCMODE},
		{Code: equals, K: unix.O_WRONLY, Jt: 3, Jf: 4},
		{Code: load, K: first}, // write: to a file of stores
		{Code: least, K: firstStore, Jf: 2},
		{Code: least, K: firstStore + stores, Jt: 1},
		{Code: result, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
}
