package supervisor

import (
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
