package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Dir returns a process's directory in this process's own /proc.
func Dir(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// Stat reads the state, a letter, and the parent's ID of the process or thread with the
// directory dir (proc_pid_stat(5)). The parent is 0 if it is in no PID namespace that this
// process sees. The error is that of the file if the process has ended.
func Stat(dir string) (state byte, parent int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The name, in parentheses, may contain any character.
	if _, err := fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d", &state, &parent); err != nil {
		return 0, 0, fmt.Errorf("read %s/stat: %w", dir, err)
	}
	return state, parent, nil
}

// Times returns how long the threads of the process with the directory dir have run, and waited for a processor, together,
// since each started (the first numbers of schedstat, in nanoseconds: Documentation/scheduler/sched-stats.rst of the kernel).
// Both are 0 if the kernel does not say.
func Times(dir string) (ran, waited time.Duration) {
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return 0, 0
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(dir, "task", thread.Name(), "schedstat"))
		if err != nil {
			continue // it has ended
		}
		var run, wait int64
		if _, err := fmt.Sscan(string(text), &run, &wait); err == nil {
			ran, waited = ran+time.Duration(run), waited+time.Duration(wait)
		}
	}
	return ran, waited
}
