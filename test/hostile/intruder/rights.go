package intruder

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// childEnv is the variable with what a child process does. manyFiles and manyBytes are more than a
	// backend may have.
	childEnv  = "INTRUDER_CHILD"
	manyFiles = 65536
	manyBytes = 256 << 20
)

func rights() []Attempt {
	return []Attempt{
		{Name: "other-user", What: "become another user or group", By: "capabilities", try: func(*Settings) error {
			return onThread(func() error {
				other := uintptr(0) // root, or from root another one
				if os.Geteuid() == 0 {
					other = 1
				}
				return anyOf([]uintptr{unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETFSUID}, func(number uintptr) error {
					if number != unix.SYS_SETFSUID {
						return call(number, other)
					}
					// It returns the user before, and no error.
					_, _, _ = unix.RawSyscall(number, other, 0, 0)
					if now, _, _ := unix.RawSyscall(number, ^uintptr(0), 0, 0); now != other {
						return unix.EPERM
					}
					return nil
				})
			})
		}},
		{Name: "groups", What: "join the groups of other devices", By: "capabilities", try: func(*Settings) error {
			return onThread(func() error {
				return unix.Setgroups([]int{6}) // disk in most distributions
			})
		}},
		{Name: "capabilities", What: "get a capability", By: "capabilities", try: func(*Settings) error {
			return onThread(func() error {
				header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
				data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_DAC_OVERRIDE, Permitted: 1 << unix.CAP_DAC_OVERRIDE}}
				return unix.Capset(&header, &data[0])
			})
		}},
		{Name: "setuid-program", What: "run a setuid program", By: "files capabilities privileges", try: runSetuid},
		{Name: "process-group", What: "leave the process group and the session, to outlive the backend", By: "agent", Instead: "the process ends with the backend", try: leave},
		{Name: "cgroup", What: "leave its cgroup or make another", By: "files user", try: leaveCgroup},
		{Name: "oom-score", What: "lower its OOM score below the agent's", By: "files", try: lowerScore},
		{Name: "raise-limits", What: "raise its hard limits", By: "capabilities", Optional: true, try: func(*Settings) error {
			return anyOf([]int{unix.RLIMIT_NOFILE, unix.RLIMIT_MEMLOCK, unix.RLIMIT_NPROC, unix.RLIMIT_CORE, unix.RLIMIT_FSIZE}, raise)
		}},
		{Name: "priority", What: "raise its priority", By: "capabilities systemCalls", try: func(*Settings) error {
			return onThread(func() error {
				return anyOf([]func() error{
					func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -1) },
					func() error {
						return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 1 /* SCHED_FIFO */, Priority: 1}, 0)
					},
					func() error { return call(unix.SYS_IOPRIO_SET, 1, 0, 1<<13) }, // IOPRIO_CLASS_RT
				}, func(f func() error) error { return f() })
			})
		}},
		{Name: "lock-memory", What: "lock 256 MB in memory", By: "capabilities", try: func(*Settings) error {
			return withMemory(func(block []byte) error { return errors.Join(unix.Mlock(block), unix.Munlock(block)) })
		}},
		{Name: "inherited", What: "use files and sockets that the agent left open", By: "descriptors", try: func(*Settings) error { return inherited }},
		{Name: "open-files", What: "open 65,536 files", Optional: true, By: "limits", try: openFiles},
	}
}

// start runs a child of this program.
func start(mode string, attributes *syscall.SysProcAttr) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = startProgram(self, mode, attributes)
	return err
}

// startProgram runs a copy of this program, and returns what it prints.
func startProgram(path, mode string, attributes *syscall.SysProcAttr) (string, error) {
	command := exec.Command(path) //nolint:noctx // it ends on its own
	command.Env = append(os.Environ(), childEnv+"="+mode)
	command.SysProcAttr = attributes
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// child is the main function of a child process.
func child(mode string) int {
	switch mode {
	case "nothing":
	case "rights":
		fmt.Println(os.Geteuid(), effective())
	case "group":
		// This process started in a session of its own; its child outlives it.
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		command := exec.Command(self) //nolint:noctx // it outlives this process
		command.Env = []string{childEnv + "=stay"}
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := command.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "stay":
		<-time.After(5 * time.Minute)
	case "compat":
		return compatStatus()
	}
	return 0
}

// effective are the effective capabilities, as /proc/self/status has them.
func effective() string {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "CapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimLeft(strings.TrimSpace(line), "0")
}

// runSetuid succeeds if the program runs as another user or has capabilities.
func runSetuid(s *Settings) error {
	got, err := startProgram(s.Setuid, "rights", nil)
	if err != nil {
		return err
	}
	user, capabilities, _ := strings.Cut(got, " ")
	if user == strconv.Itoa(os.Geteuid()) && capabilities == "" {
		return unix.EPERM
	}
	return nil
}

// leave leaves a process behind. The test verifies that it ends.
func leave(*Settings) error {
	return start("group", &syscall.SysProcAttr{Setsid: true})
}

// leaveCgroup moves the process to where it is, or makes a cgroup, in any hierarchy.
func leaveCgroup(*Settings) error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/" + strings.TrimPrefix(fields[1], "name=")} {
			paths = append(paths, filepath.Join(root, fields[2]))
		}
	}
	return anyOf(paths, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err == nil {
			return nil
		}
		path := filepath.Join(dir, "intruder")
		return errors.Join(os.Mkdir(path, 0o700), os.Remove(path))
	})
}

// lowerScore sets the score back at once.
func lowerScore(*Settings) error {
	const path = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte("0"), 0), os.WriteFile(path, before, 0))
}

// raise sets the limit back at once. One that is unlimited cannot be raised.
func raise(resource int) error {
	var before unix.Rlimit
	if err := unix.Getrlimit(resource, &before); err != nil {
		return err
	}
	if before.Max == unix.RLIM_INFINITY {
		return unix.EPERM
	}
	if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: before.Cur, Max: before.Max + 1}, nil); err != nil {
		return err
	}
	return unix.Prlimit(0, resource, &before, nil)
}

// inherited is nil if the process was started with an open socket that is no standard file.
var inherited = func() error {
	for fd := 3; fd < 256; fd++ {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFSOCK {
			return nil
		}
	}
	return unix.EBADF
}()

// withMemory maps memory without using it.
func withMemory(f func([]byte) error) error {
	block, err := unix.Mmap(-1, 0, manyBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	return errors.Join(f(block), unix.Munmap(block))
}

// exhaust uses memory until the process is killed, at most 8 GB.
func exhaust() {
	var blocks [][]byte
	for range 8192 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		blocks = append(blocks, block)
	}
	runtime.KeepAlive(blocks)
}

// openFiles raises the soft limit as far as it may.
func openFiles(*Settings) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // or fewer
	var open []int
	defer func() {
		for _, fd := range open {
			_ = unix.Close(fd)
		}
	}()
	for range manyFiles {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		open = append(open, fd)
	}
	return nil
}
