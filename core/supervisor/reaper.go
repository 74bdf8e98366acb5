package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper takes care of what backends leave behind: processes whose parent has ended
// become children of this process, which then must wait for their end. It also ends what
// a backend that has ended leaves running, in whatever session and process group.
//
// Every child that no supervisor with this Reaper has started is such an orphan. A
// process that uses one must start children by nothing else, and must not have two. A
// Reaper is safe for concurrent use.
type Reaper struct {
	wake chan struct{} // one slot

	mu sync.Mutex
	// starting counts the starts in progress: their children are not in own yet.
	starting int
	// own are the processes that supervisors wait for, with their socket directories.
	own map[int]string
}

// NewReaper makes this process the one that orphans of its descendants become children
// of, as PID 1 is in a container without being asked (PR_SET_CHILD_SUBREAPER(2const)). Run
// must follow.
func NewReaper() (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	// The first use of package os for a process starts a child to learn what the kernel
	// can do, and waits for it.
	withProcess(os.Getpid(), func(*os.Process) {})
	return &Reaper{wake: make(chan struct{}, 1), own: map[int]string{}}, nil
}

// Run waits for orphans that have ended, until ctx ends.
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

// reap waits for the orphans that have ended, and reports whether there were any.
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

// start starts a process that the caller waits for, and then calls waited. The socket
// directory is in the process's environment.
func (r *Reaper) start(cmd *exec.Cmd, socketDir string) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()
	defer r.poke()
	err := cmd.Start()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	if err == nil {
		r.own[cmd.Process.Pid] = socketDir
	}
	return err
}

// run starts a process and waits for it.
func (r *Reaper) run(cmd *exec.Cmd) error {
	if err := r.start(cmd, ""); err != nil {
		return err
	}
	preferVictim(cmd.Process.Pid)
	defer r.waited(cmd.Process.Pid)
	return cmd.Wait()
}

// waited says that the caller of start has waited for the process.
func (r *Reaper) waited(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}

func (r *Reaper) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // one is pending
	}
}
