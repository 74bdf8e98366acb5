package plug

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/accelmux/accelmux/core/procfs"
)

// socketDirVariable is go-plugin's variable for the directory of a backend's socket. Its
// value is unique for each backend process, and children inherit it.
const socketDirVariable = "PLUGIN_UNIX_SOCKET_DIR="

// socketDirIn returns the socket directory in a process's environment, "" if there is none
// or it cannot be read. It is the environment at the start of the program
// (proc_pid_environ(5)); a process that has ended has none.
func socketDirIn(pid int) string {
	environment, err := os.ReadFile(filepath.Join(procfs.Dir(pid), "environ"))
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

// eachProcess calls visit with every process that this one can see, except itself. If the
// kernel has pidfd_open(2) (Linux 5.3), visit always acts on the process that it inspects,
// even if the ID is reused meanwhile.
func eachProcess(visit func(*os.Process)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			withProcess(pid, visit)
		}
	}
}

// withProcess calls visit with a process, if it exists.
func withProcess(pid int, visit func(*os.Process)) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }() // it cannot fail for an open handle
	visit(process)
}

// kill kills a process, which may have ended.
func kill(process *os.Process) { _ = process.Kill() }
