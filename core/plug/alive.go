package plug

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/accelmux/accelmux/core/procfs"
	"github.com/accelmux/accelmux/core/text"
)

// WhyAlive explains why a process has not ended after SIGKILL.
func WhyAlive(pid int) string { return whyAlive("/proc", pid) }

// whyAlive explains it from the states of the process's
// threads (proc_pid_stat(5)) under root, a procfs: one thread in the kernel is enough.
func whyAlive(root string, pid int) string {
	threads, err := filepath.Glob(filepath.Join(root, strconv.Itoa(pid), "task", "[0-9]*"))
	if err != nil || len(threads) == 0 {
		return "its state cannot be read"
	}
	states := map[byte]string{}
	for _, thread := range threads {
		if state, _, err := procfs.Stat(thread); err == nil {
			states[state] = thread
		}
	}
	switch {
	case states['D'] != "":
		where := ""
		if symbol, err := os.ReadFile(filepath.Join(states['D'], "wchan")); err == nil && len(symbol) > 1 {
			where = " (" + text.Printable(string(symbol), 64) + ")"
		}
		return fmt.Sprintf("it hangs in the kernel%s, most likely in the device's driver or on a disk that does not answer: see the kernel's log, and reboot the node if it persists", where)
	case states['R'] != "":
		return "it waits for a processor: the node is very busy, or the device's driver is in an endless loop"
	}
	return "it is ending slowly: the node is very busy"
}
