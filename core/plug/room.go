package plug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// The range of users that systemd gives to services while they run, and so no user of the node
	// (https://systemd.io/UIDS-GIDS).
	firstUser = 61184
	lastUser  = 65519
	// launcherPoll is the pause between attempts to reach a launcher.
	launcherPoll = 100 * time.Millisecond
)

// Options are what the processes of a [Room] have in common.
type Options struct {
	// RunDir holds the sockets in a directory "backends". The caller ensures that it has only one room at a time.
	RunDir string
	// Paths are the host's directories, for the backends; nil means the usual ones.
	Paths *backendv1.HostPaths
	// Reaper reaps processes that backends leave behind; may be nil.
	Reaper *Reaper
	// Launchers are the sockets of launchers, by the file names of the programs that they start in containers of
	// their own.
	Launchers map[string]string
	// OwnDir is a directory of which each backend may have directories of its own; "" for none.
	OwnDir string
	// Hidden are directories that no backend sees, except for what it is given in them: the agent's own,
	// kubelet's and that of CDI specs. RunDir need not be among them.
	Hidden []string
	// Cgroups is whether each process gets a cgroup; this process must be the only one in its own.
	Cgroups bool
	Timing  Timing
}

// Timing has the intervals and limits of processes and connections. A zero field means its default.
type Timing struct {
	// Start is the deadline of the handshake and the connection, Health that of the health check. Default 10s, 1s.
	Start, Health time.Duration
	// Terminate is the time between SIGTERM and SIGKILL, and Kill how long a process may take to end after SIGKILL: it must
	// be scheduled first, which takes time on a busy node. Default 2s, 2s.
	Terminate, Kill time.Duration
	// Reap is how long to wait for the end of a process whose connection broke, and for the
	// rest of an ended process's output. Default 250ms.
	Reap time.Duration
	// Settle is how long no further file must appear that a process was given before Appeared has those that did.
	// Default 1s.
	Settle time.Duration
	// LogLines is how many lines a second a backend may log in the long run, and
	// LogBurst how many at once. Default 50, 500.
	LogLines, LogBurst int
}

// WithDefaults returns the timing without zero fields.
func (t Timing) WithDefaults() Timing {
	t.Start, t.Health = cmp.Or(t.Start, 10*time.Second), cmp.Or(t.Health, time.Second)
	t.Terminate, t.Kill, t.Reap = cmp.Or(t.Terminate, 2*time.Second), cmp.Or(t.Kill, 2*time.Second), cmp.Or(t.Reap, 250*time.Millisecond)
	t.Settle = cmp.Or(t.Settle, time.Second)
	t.LogLines, t.LogBurst = cmp.Or(t.LogLines, 50), cmp.Or(t.LogBurst, 500)
	return t
}

// Room is where processes are started: what their sandboxes and sockets have in common. It is safe for concurrent use.
type Room struct {
	socketDir string
	paths     *backendv1.HostPaths
	launchers map[string]string
	ownDir    string
	hidden    []string
	reaper    *Reaper
	timing    Timing
	finder    *openfiles.Finder
	// cgroups is nil if the agent cannot make any. noCgroups is the reason, or else what the cgroups lack.
	cgroups   *sandbox.Cgroups
	noCgroups string

	mu sync.Mutex
	// users are the user IDs, by the backends' names.
	users map[string]int
	// processes are those that were started and not removed.
	processes map[*Process]bool
}

// Open removes what an earlier run left in the run directory. It starts nothing.
func Open(o Options) (*Room, error) {
	runDir, err := filepath.Abs(o.RunDir)
	if err != nil {
		return nil, fmt.Errorf("find the run directory: %w", err)
	}
	socketDir, err := openSocketDir(runDir)
	if err != nil {
		return nil, err
	}
	if o.Paths == nil {
		o.Paths = &backendv1.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: "/proc"}
	}
	r := &Room{
		socketDir: socketDir, paths: o.Paths, launchers: o.Launchers, ownDir: o.OwnDir, hidden: append([]string{runDir}, o.Hidden...),
		reaper: o.Reaper, timing: o.Timing.WithDefaults(), users: map[string]int{}, processes: map[*Process]bool{}, finder: openfiles.New(), noCgroups: "the agent makes no cgroups",
	}
	if o.Cgroups {
		if r.cgroups, err = sandbox.OpenCgroups("/proc"); err != nil {
			r.noCgroups = err.Error()
		} else if r.noCgroups = ""; len(r.cgroups.Lacking) > 0 {
			r.noCgroups = "without the controllers " + strings.Join(r.cgroups.Lacking, ", ") + ", which the agent's cgroup does not have"
		}
	}
	return r, nil
}

// Close removes the directory of the sockets, when all processes have ended.
func (r *Room) Close() error {
	if err := os.RemoveAll(r.socketDir); err != nil {
		return fmt.Errorf("remove the backends' sockets: %w", err)
	}
	return nil
}

// HostPaths returns the paths of the host's trees, as Configure has them.
func (r *Room) HostPaths() *backendv1.HostPaths { return r.paths }

// user returns the ID of a backend's own user. It depends on the name alone, unless another backend has that
// user already.
func (r *Room) user(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if user := r.users[name]; user != 0 {
		return user
	}
	used := map[int]bool{}
	for _, user := range r.users {
		used[user] = true
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	const size = lastUser - firstUser + 1
	user := firstUser + int(hash.Sum32()%size)
	for used[user] {
		user = firstUser + (user-firstUser+1)%size
	}
	r.users[name] = user
	return user
}

// launcher is the socket of the launcher that starts the program in a container of its own; "" if none does.
func (r *Room) launcher(p *Program) string { return r.launchers[filepath.Base(p.Name)] }

// socketsOf is where the directories of a program's sockets are: for one in another container, in the directory that both
// share.
func (r *Room) socketsOf(p *Program) string {
	if socket := r.launcher(p); socket != "" {
		return filepath.Dir(socket)
	}
	return r.socketDir
}

// awaitLauncher waits until the launcher of a program answers, at most Timing.Start: its container may start at the same
// time as this one.
func (r *Room) awaitLauncher(ctx context.Context, p *Program) error {
	socket := r.launcher(p)
	if socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timing.Start)
	defer cancel()
	err := launcher.Check(socket)
	for err != nil && backoff.Sleep(ctx, launcherPoll) {
		err = launcher.Check(socket)
	}
	if err != nil {
		return &UnusableError{err}
	}
	return nil
}

// sandbox makes the sandbox of a process whose socket is in dir. The caller ends its cgroup.
func (r *Room) sandbox(s Start, dir string) (sandbox.Sandbox, error) {
	box := sandbox.Sandbox{
		Policy: s.Policy, Given: s.Given, Dir: dir, Launcher: r.launcher(s.Program),
		Paths: sandbox.Paths{Sysfs: r.paths.GetSysfs(), Devfs: r.paths.GetDevfs(), Procfs: r.paths.GetProcfs()},
		Own:   r.ownDir, Hidden: r.hidden, NoCgroup: r.noCgroups, Settle: r.timing.Settle,
	}
	if box.Launcher != "" { // the container has its own user and cgroup
		sum, err := s.Program.Checksum()
		if err != nil {
			return box, err
		}
		box.Checksum, box.ManifestChecksum, box.Pinned = sum, s.Program.Manifest.Sum, s.Program.File != nil
		// The backend, which may have another user, writes to the directory of its socket. Both have the group of the
		// directory above.
		if err := sandbox.SetMode(dir, 0o770|os.ModeSetgid); err != nil {
			return box, fmt.Errorf("share the directory of the socket with the backend's container: %w", err)
		}
		return box, nil
	}
	switch user := s.Policy.User; user {
	case "", sandbox.UserOwn:
		box.UID = r.user(s.Name)
	case sandbox.UserRoot:
	default:
		box.UID, _ = strconv.Atoi(user) // validated; 0 is root
	}
	if r.cgroups != nil && s.Policy.Mode != sandbox.Off {
		var err error
		if box.Cgroup, err = r.cgroups.Make(filepath.Base(dir), s.Policy); err != nil {
			box.NoCgroup = err.Error()
		}
	}
	return box, nil
}

// remove removes the directory and the cgroup of a process that has ended, and kills what is left in the cgroup, which can be
// removed only when the kernel has ended that.
func (r *Room) remove(dir, cgroup string) error {
	errs := []error{os.RemoveAll(dir)}
	if cgroup == "" {
		return errs[0]
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(r.timing.Reap); ; <-tick.C {
		if err := r.cgroups.End(cgroup); err == nil || time.Now().After(limit) {
			return errors.Join(append(errs, err)...)
		}
	}
}
