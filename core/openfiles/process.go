package openfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxNamed is the number of processes that a message names, and maxName bounds each name: the kernel's limit is 15 bytes
	// (TASK_COMM_LEN), but a process chooses them.
	maxNamed = 8
	maxName  = 64
)

// Process is a process of this node.
type Process struct {
	PID int `json:"pid"`
	// Name is its name in messages of the kernel (comm), as it chose it; "" if it cannot be read.
	Name string `json:"name,omitempty"`
}

// String is "python (1234)", printable, also if a launcher sent it.
func (p Process) String() string {
	if p.Name == "" {
		return strconv.Itoa(p.PID)
	}
	return fmt.Sprintf("%s (%d)", text.Printable(p.Name, maxName), p.PID)
}

// Processes are some processes. As text, for messages, they are "python (1234), 1235"; of many, the first 8.
type Processes []Process

// String implements [fmt.Stringer].
func (p Processes) String() string {
	names := make([]string, len(p)) // at most maxProcesses
	for i, one := range p {
		names[i] = one.String()
	}
	return text.First(names, maxNamed)
}

func named(procfs string, pid int) Process {
	name, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "comm"))
	if err != nil {
		name = nil // it has ended
	}
	return Process{pid, strings.TrimSpace(string(name))}
}
