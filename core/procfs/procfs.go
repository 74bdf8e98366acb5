package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
