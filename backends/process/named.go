package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxNamed is the number of processes that a message names.
const maxNamed = 8

// initial is the initial PID namespace, whose inode the kernel has fixed
// (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initial = "pid:[4026531836]"

// Named returns processes for a message: "python (1234), 1235"; of many, the first 8; "" for none.
func Named(procfs string, pids ...int) string {
	var names []string
	for _, pid := range pids[:min(len(pids), maxNamed)] {
		name := strconv.Itoa(pid)
		if text, err := os.ReadFile(filepath.Join(procfs, name, "comm")); err == nil {
			name = fmt.Sprintf("%s (%d)", strings.TrimSpace(string(text)), pid)
		}
		names = append(names, name)
	}
	list := strings.Join(names, ", ")
	if more := len(pids) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// seesAll reports whether the driver's processes are all of the node: this process is in the initial PID namespace.
func seesAll(procfs string) bool {
	namespace, err := os.Readlink(filepath.Join(procfs, "self/ns/pid"))
	return err == nil && namespace == initial
}
