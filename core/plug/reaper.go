package plug

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/wake"
)

// Reaper reaps processes that backends leave behind: a process whose parent has ended
// becomes a child of this process, which must wait for its end. It also ends the processes
// that an ended backend left running, in any session and process group.
//
// Every child that no supervisor with this Reaper has started is such an orphan. A process
// with a Reaper must start children in no other way, and must not have two Reapers. A
// Reaper is safe for concurrent use.
type Reaper struct {
	wake chan struct{} // one slot

	mu sync.Mutex
	// starting is the number of starts in progress: their children are not in own yet.
	starting int
	// own are the processes that supervisors wait for, with their socket directories.
	own map[int]string
}

// NewReaper makes this process the parent of its descendants' orphans
// (PR_SET_CHILD_SUBREAPER(2const)); PID 1 of a container is that anyway. The caller must
// call Run.
func NewReaper() (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	// When package os is first used for a process, it starts a child to find out what the
	// kernel supports, and waits for it.
	withProcess(os.Getpid(), func(*os.Process) {})
	return &Reaper{wake: make(chan struct{}, 1), own: map[int]string{}}, nil
}

// Run waits for the end of orphans, until ctx ends.
func (r *Reaper) Run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		for r.reap() {
		}
		select {
		case <-ended:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// reap waits for orphans that have ended, and reports whether there were any.
func (r *Reaper) reap() (any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starting > 0 {
		return false // the end of the start wakes Run
	}
	for _, pid := range children(os.Getpid()) {
		if _, own := r.own[pid]; own {
			continue // a wait for it would take its exit status from its supervisor
		}
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && got == pid {
			any = true
		}
	}
	return any
}

// start starts a process. The caller waits for it and then calls waited. The socket
// directory is in the process's environment.
func (r *Reaper) start(cmd *exec.Cmd, socketDir string) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()
	defer wake.Send(r.wake)
	err := cmd.Start()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	if err == nil {
		r.own[cmd.Process.Pid] = socketDir
	}
	return err
}

// waited records that the caller of start has waited for the process.
func (r *Reaper) waited(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}
