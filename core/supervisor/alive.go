package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/accelmux/accelmux/core/procfs"
)

// whyAlive says why a process may still be there after SIGKILL, by the states of its
// threads under root, a procfs, as proc_pid_stat(5) has them: one thread that the kernel does
// not let go is enough.
func whyAlive(root string, pid int) string {
	threads, err := filepath.Glob(filepath.Join(root, strconv.Itoa(pid), "task", "[0-9]*"))
	if err != nil || len(threads) == 0 {
		return "nothing is known of it"
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
			where = " (" + printable(string(symbol), 64) + ")"
		}
		return fmt.Sprintf("it hangs in the kernel%s, most likely in the device's driver, or on a disk that does not answer: see the kernel's log, and reboot the node if it stays", where)
	case states['R'] != "":
		return "it is being ended, but the kernel does not get to it: the node is very busy, or the device's driver computes without end"
	}
	return "it is being ended, which takes long: the node is very busy"
}
