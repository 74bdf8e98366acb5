package intruder

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel are attempts to use, change or end the kernel. Where valid arguments would have an effect
// they are invalid, which the kernel checks after the caller's rights.
func kernel() []Attempt {
	return []Attempt{
		optional("module", "load a kernel module", "capabilities systemCalls", func() error {
			return allowed(call(unix.SYS_INIT_MODULE, 0, 0, 0), unix.ENOEXEC, unix.EFAULT, unix.EINVAL)
		}),
		optional("kexec", "load another kernel", "capabilities systemCalls", func() error {
			return allowed(call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xffff), unix.EINVAL)
		}),
		plain("reboot", "reboot the machine", "capabilities systemCalls", func() error {
			return allowed(call(unix.SYS_REBOOT, 0, 0, 0, 0), unix.EINVAL)
		}),
		plain("clock", "set the clock", "capabilities systemCalls", func() error {
			if err := call(unix.SYS_SETTIMEOFDAY, 0, 0); err == nil { // neither a time nor a zone
				return nil
			}
			var now unix.Timex
			if _, err := unix.Adjtimex(&now); err != nil {
				return err
			}
			_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TICK, Tick: now.Tick})
			return err
		}),
		plain("hostname", "change the host's name", "capabilities systemCalls", func() error {
			var names unix.Utsname
			if err := unix.Uname(&names); err != nil {
				return err
			}
			return unix.Sethostname([]byte(unix.ByteSliceToString(names.Nodename[:])))
		}),
		plain("kernel-log", "change what the kernel logs", "capabilities systemCalls", func() error {
			_, err := unix.Klogctl(8 /* SYSLOG_ACTION_CONSOLE_LEVEL */, nil)
			return allowed(err, unix.EINVAL)
		}),
		plain("kernel-log-write", "write to the kernel's log", "files user", func() error { return openFor("/dev/kmsg", unix.O_WRONLY) }),
		optional("swap", "turn swap or accounting on", "capabilities systemCalls", func() error {
			name, err := unix.BytePtrFromString("/nonexistent")
			if err != nil {
				return err
			}
			return anyOf([]uintptr{unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT}, func(number uintptr) error {
				_, _, errno := unix.Syscall(number, uintptr(unsafe.Pointer(name)), 0, 0)
				return allowed(failure(errno), unix.ENOENT)
			})
		}),
		optional("io-ports", "use the machine's I/O ports", "capabilities systemCalls", ioPorts),
		plain("bpf", "use BPF", "capabilities systemCalls", func() error {
			var next [3]uint32 // the ID of the first program after 0
			_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_NEXT_ID, uintptr(unsafe.Pointer(&next)), 12)
			return allowed(failure(errno), unix.ENOENT)
		}),
		optional("perf", "use performance events", "systemCalls", func() error {
			attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: unix.PERF_ATTR_SIZE_VER0, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			fd, err := unix.PerfEventOpen(&attributes, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		optional("userfaultfd", "handle page faults (userfaultfd)", "systemCalls", func() error {
			return anyOf([]uintptr{0, 1 /* UFFD_USER_MODE_ONLY */}, func(flags uintptr) error {
				return descriptor(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|flags)
			})
		}),
		optional("io-uring", "use io_uring, past the filter of system calls", "systemCalls", func() error {
			var parameters [30]uint32 // struct io_uring_params
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
			return closed(fd, errno)
		}),
		optional("keys", "use the kernel's keyrings", "systemCalls", func() error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
			return err
		}),
		optional("other-calls", "make system calls as a 32-bit program does, past the filter", "systemCalls", otherCalls),
		plain("watch-files", "watch all files of the machine (fanotify)", "capabilities systemCalls", func() error {
			fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, uint(os.O_RDONLY))
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
	}
}
