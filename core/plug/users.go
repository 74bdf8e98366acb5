package plug

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/procfs"
)

// Users returns the processes that have one of the nodes open, but for the backend's own. It is an error if a node is not
// there and has no number: a process may still have it open. The search is made in the backend's own container if it has one: the agent's may not be allowed to inspect other
// processes. The error is for the operator; see [openfiles.Finder.Find].
func (p *Process) Users(ctx context.Context, nodes []inventory.DeviceNode) (openfiles.Processes, error) {
	r := p.room
	devices, err := devicesOf(hostfs.Host{Devfs: r.paths.GetDevfs(), Sysfs: r.paths.GetSysfs(), Procfs: r.paths.GetProcfs()}, nodes)
	if err != nil || len(devices) == 0 {
		return nil, err
	}
	if socket := r.launcher(p.program); socket != "" {
		ctx, cancel := context.WithTimeout(ctx, openfiles.Limit)
		defer cancel()
		return launcher.Find(ctx, socket, launcher.Search{Procfs: r.paths.GetProcfs(), Devices: devices})
	}
	return r.finder.Find(ctx, r.paths.GetProcfs(), devices, r.started(p.name))
}

// UsersOf is [Process.Users] for a tool: its own processes are those that it has started.
func UsersOf(ctx context.Context, host hostfs.Host, nodes []inventory.DeviceNode) (openfiles.Processes, error) {
	devices, err := devicesOf(host, nodes)
	if err != nil || len(devices) == 0 {
		return nil, err
	}
	return openfiles.New().Find(ctx, host.Procfs, devices, descends)
}

// devicesOf returns the devices of nodes, also of those that only runtimes make, by the numbers that they have.
func devicesOf(host hostfs.Host, nodes []inventory.DeviceNode) (all []openfiles.Device, _ error) {
	view := host.View()
	for _, n := range nodes {
		f, err := view.Find(n.HostPath)
		switch {
		case err != nil:
			return nil, fmt.Errorf("find the device node %s: it %w", n.HostPath, err)
		case f.IsDevice():
			all = append(all, openfiles.Device{Block: f.IsBlock(), Major: unix.Major(f.Number), Minor: unix.Minor(f.Number)})
		case n.Major != 0:
			all = append(all, openfiles.Device{Block: n.Type == "b", Major: n.Major, Minor: n.Minor})
		case f.Hidden: // a file that is there, and no device, is no node
			return nil, fmt.Errorf("the agent does not see the device node %s, and so does not know its number, by which processes are found that have it open", n.HostPath)
		}
	}
	return all, nil
}

// started returns a function that reports whether a process is one of a backend's: one that the room has started, or that
// these have started, also one whose parent has ended, which has a socket directory of the backend in its environment.
func (r *Room) started(name string) func(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	roots, dirs := map[int]bool{}, map[string]bool{}
	for p := range r.processes {
		if p.name == name {
			roots[p.PID()], dirs[p.run.dir] = true, true
		}
	}
	return func(pid int) bool {
		return isBelow(pid, func(pid int) bool { return roots[pid] || dirs[socketDirIn(pid)] })
	}
}

// isBelow reports whether a process descends from this one, and is a child for which own is true, or descends from one.
func isBelow(pid int, own func(child int) bool) bool {
	for pid > 1 {
		_, parent, err := procfs.Stat(procfs.Dir(pid))
		if err != nil {
			return false
		}
		if parent == os.Getpid() {
			return own(pid)
		}
		pid = parent
	}
	return false
}

// descends reports whether a process descends from this one.
func descends(pid int) bool { return isBelow(pid, func(int) bool { return true }) }

// FindLaunched returns the Find of a launcher's options. All processes below this one are the backend's.
func FindLaunched() func(context.Context, launcher.Search) (openfiles.Processes, error) {
	finder := openfiles.New()
	return func(ctx context.Context, s launcher.Search) (openfiles.Processes, error) {
		return finder.Find(ctx, s.Procfs, s.Devices, descends)
	}
}
