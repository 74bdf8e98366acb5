package supervisor

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// oomScoreRange is the range in which oom_score_adj counts memory: a difference of that
// much outweighs all the memory that there is (proc_pid_oom_score_adj(5)).
const oomScoreRange = 1000

// preferVictim has the kernel kill a backend process, and what that starts, before this
// process when memory runs out. It needs no rights. A kernel that refuses leaves the score
// as it is.
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
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte(score), 0)
}

// ReserveThreads starts n threads, which then are idle. When there can be no more, as a
// backend has used up the process IDs, the Go runtime ends a process that needs one more:
// it needs one for each system call that takes long, and for each of GOMAXPROCS.
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
