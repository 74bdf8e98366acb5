package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// socketDirVariable is go-plugin's variable for the directory of a backend's socket. Its
// value is one of a kind for each backend process, whose children inherit it.
const socketDirVariable = "PLUGIN_UNIX_SOCKET_DIR="

// socketDirIn is the socket directory in a process's environment, "" if there is none or
// it cannot be read. It is the environment at the start of the program
// (proc_pid_environ(5)); one that has ended has none.
func socketDirIn(pid int) string {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(socketDirVariable)); ok {
			return string(value)
		}
	}
	return ""
}

// eachProcess calls visit with every process that this one can see, but for itself. What
// visit learns of it and does to it are of the same process, even if the number is used
// again meanwhile, where the kernel has pidfd_open(2) (Linux 5.3).
func eachProcess(visit func(*os.Process)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return // no /proc, no way to know
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			withProcess(pid, visit)
		}
	}
}

// withProcess calls visit with a process, if it is there.
func withProcess(pid int, visit func(*os.Process)) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }() // nothing to lose
	visit(process)
}

// extinguish kills the processes that find visits, and those that they start meanwhile.
// All are stopped before the first is killed: processes that start others faster than
// they can be killed would never come to an end. It gives up on what does not die.
func extinguish(find func(visit func(*os.Process))) {
	const rounds = 100
	stopped := map[int]bool{}
	for range rounds {
		found := len(stopped)
		find(func(process *os.Process) {
			if process.Signal(syscall.SIGSTOP) == nil {
				stopped[process.Pid] = true
			}
		})
		if len(stopped) == found {
			break
		}
	}
	find(func(process *os.Process) { _ = process.Signal(syscall.SIGKILL) }) // it may be gone
}
