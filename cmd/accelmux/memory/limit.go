package memory

import (
	"bufio"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// Limit sets the garbage collector's memory limit to three quarters of the cgroup's; the
// backends are in the same cgroup and need the rest. Without it the heap may double up to the
// limit, and the kernel kills the agent. GOMEMLIMIT in the environment takes precedence. root is "/" except in tests.
func Limit(root string, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := cgroupLimit(root); limit > 0 {
		debug.SetMemoryLimit(limit - limit/4)
		log.Info("the garbage collector follows the cgroup's memory limit", "bytes", limit)
	}
}

// cgroupLimit returns the least memory limit of the process's cgroup and of those above it,
// in bytes; 0 if there is none. It reads memory.max (cgroup v2) and memory.limit_in_bytes
// (v1); see admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel. If a
// container sees its own cgroup as the root, the files are there.
func cgroupLimit(root string) int64 {
	file, err := os.Open(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // it was only read
	least := int64(math.MaxInt64)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// hierarchy-ID:controllers:path, see cgroups(7).
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, name := filepath.Join(root, "sys/fs/cgroup"), "memory.max"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			top, name = filepath.Join(top, "memory"), "memory.limit_in_bytes"
		}
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join(top, path, name))
			// "max", or in version 1 a number near 2^63, means no limit.
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 {
				least = min(least, n)
			}
			if path == "/" {
				break
			}
		}
	}
	if least > 1<<50 {
		return 0
	}
	return least
}
