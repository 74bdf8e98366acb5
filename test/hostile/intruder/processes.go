package intruder

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processes are attempts on the agent, another backend and a process of the node.
func processes() []Attempt {
	on := func(name, what, by string, f func(pid int) error) Attempt {
		return Attempt{Name: name, What: what, By: by, try: func(s *Settings) error { return anyOf(s.processes(), f) }}
	}
	return []Attempt{
		on("arguments", "read another process's arguments", "files", func(pid int) error { return read(proc(pid, "cmdline")) }),
		on("environment", "read another process's environment", "files user", func(pid int) error { return read(proc(pid, "environ")) }),
		on("memory-read", "read another process's memory", "files user", readMemory),
		on("memory-write", "write another process's memory", "files user", writeMemory),
		on("ptrace", "trace another process", "files user systemCalls", seize),
		on("descriptors", "take another process's open files and sockets", "files user", takeDescriptor),
		on("root-of-process", "read files through /proc/PID/root and /proc/PID/cwd", "files user", func(pid int) error {
			return anyOf([]string{"root/etc/hostname", "root/etc", "cwd/"}, func(name string) error { return read(proc(pid, name)) })
		}),
		on("signal", "signal another process", "processes user", func(pid int) error {
			return anyOf([]error{
				unix.Kill(pid, 0),
				unix.Tgkill(pid, pid, 0),
				withPidfd(pid, func(fd int) error { return unix.PidfdSendSignal(fd, 0, nil, 0) }),
			}, self)
		}),
		on("priority-of-others", "change another process's priority and CPUs", "user systemCalls", func(pid int) error {
			priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
			if err != nil {
				return err
			}
			var cpus unix.CPUSet
			if err := unix.SchedGetaffinity(pid, &cpus); err == nil && unix.SchedSetaffinity(pid, &cpus) == nil {
				return nil
			}
			return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-priority) // the system call returns 20 - nice
		}),
		on("limits-of-others", "change another process's limits", "user systemCalls", func(pid int) error {
			var limit unix.Rlimit
			if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit); err != nil {
				return err
			}
			return unix.Prlimit(pid, unix.RLIMIT_CORE, &limit, nil)
		}),
		on("oom-score-of-others", "change another process's OOM score", "files user", func(pid int) error { return rewrite(proc(pid, "oom_score_adj")) }),
	}
}

func proc(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// rewrite writes to a file what it contains.
func rewrite(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0)
}

// program returns the address of a process's first mapping, which is of its program and read-only.
func program(pid int) (int64, error) {
	file, err := os.Open(proc(pid, "maps"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	if !lines.Scan() {
		return 0, errors.Join(lines.Err(), fmt.Errorf("process %d has no memory", pid))
	}
	start, _, _ := strings.Cut(lines.Text(), "-")
	return strconv.ParseInt(start, 16, 64)
}

// readMemory succeeds if one of the two ways is open.
func readMemory(pid int) error {
	// EFAULT: there is nothing at address 0, which is found out after the rights.
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{*iovec()}, []unix.RemoteIovec{{Len: 1}}, 0)
	if err = allowed(err, unix.EFAULT); err == nil {
		return nil
	}
	return memory(pid, os.O_RDONLY, func(file *os.File, at int64) error {
		_, err := file.ReadAt(make([]byte, 1), at)
		return err
	})
}

func writeMemory(pid int) error {
	_, err := unix.ProcessVMWritev(pid, []unix.Iovec{*iovec()}, []unix.RemoteIovec{{Len: 1}}, 0)
	if err = allowed(err, unix.EFAULT); err == nil {
		return nil
	}
	return memory(pid, os.O_RDWR, func(file *os.File, at int64) error {
		b := make([]byte, 1)
		if _, err := file.ReadAt(b, at); err != nil {
			return err
		}
		_, err := file.WriteAt(b, at) // what was there, on a page that is never written
		return err
	})
}

func memory(pid, flags int, f func(file *os.File, at int64) error) error {
	at, err := program(pid)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(proc(pid, "mem"), flags, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return f(file, at)
}

func iovec() *unix.Iovec {
	v := &unix.Iovec{Base: new(byte)}
	v.SetLen(1)
	return v
}

// seize attaches to a process without stopping it; it is detached when the thread ends.
func seize(pid int) error {
	return onThread(func() error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid)) })
}

// takeDescriptor succeeds if one of the two ways is open.
func takeDescriptor(pid int) error {
	err := withPidfd(pid, func(fd int) error { return descriptor(unix.SYS_PIDFD_GETFD, uintptr(fd), 0) })
	if err == nil {
		return nil
	}
	return openFor(proc(pid, "fd/0"), unix.O_RDONLY)
}

func withPidfd(pid int, f func(fd int) error) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}
