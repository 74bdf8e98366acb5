package plug

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/accelmux/accelmux/core/procfs"
)

// oomScoreRange is the range of oom_score_adj: a difference of that much outweighs all
// memory of the machine (proc_pid_oom_score_adj(5)).
const oomScoreRange = 1000

// preferVictim makes the kernel kill a backend process and its children before this process
// when memory runs out. It needs no privileges. If the kernel refuses, the score does not
// change.
func preferVictim(pid int) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return
	}
	score := strconv.Itoa(min(own+oomScoreRange, oomScoreRange))
	_ = os.WriteFile(filepath.Join(procfs.Dir(pid), "oom_score_adj"), []byte(score), 0)
}

// Bounds of what a backend may have in the directory of its socket. That is mostly in memory, and as
// small as the socket (the chart's is 1 MiB for all backends).
const (
	maxSocketFiles = 32
	maxSocketBytes = 128 << 10
)

// isSmall reports whether a socket directory is within its bounds.
func isSmall(dir string) bool {
	files, size := 0, int64(0)
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		if files++; files > maxSocketFiles+1 || size > maxSocketBytes {
			return filepath.SkipAll
		}
		return nil
	})
	return files <= maxSocketFiles+1 && size <= maxSocketBytes // with the directory itself
}

// ReserveThreads starts n threads, which are idle afterwards. When a backend has exhausted
// the process IDs, no thread can be started, and the Go runtime aborts a process that needs
// one more: one for each long system call, and one for each of GOMAXPROCS.
func ReserveThreads(n int) {
	var started sync.WaitGroup
	release := make(chan struct{})
	started.Add(n)
	for range n {
		go func() {
			runtime.LockOSThread() // so that it blocks its thread, too
			defer runtime.UnlockOSThread()
			started.Done()
			<-release
		}()
	}
	started.Wait()
	close(release)
}
