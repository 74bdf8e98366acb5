package plug

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/procfs"
)

// maxTasks bounds the processes and threads of a backend, including those that left its
// process group. It is far above what a backend needs, and below the usual limits of a pod
// (podPidsLimit), which the agent and all backends share.
const maxTasks = 512

// endLeft kills the processes that an ended backend process left running: the orphans that
// have its socket directory in their environment, and those without the socket directory of
// a living backend, with all their descendants. Twice, as one may have started another meanwhile. Those that start others
// faster than that are ended by a cgroup alone.
func (r *Reaper) endLeft(socketDir string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for range 2 {
		r.eachOrphan(func(orphan int, dir string, living bool) {
			if dir != "" && dir == socketDir || !living {
				eachDescendant(orphan, kill)
			}
		})
	}
}

// tasks counts the processes and threads of a running backend process, until they exceed
// maxTasks. Orphans that belong to no living backend process are counted separately; if
// they exceed maxTasks, they are killed.
func (r *Reaper) tasks(pid int, socketDir string) (count int) {
	if r == nil {
		return 0
	}
	orphaned := 0
	r.mu.Lock()
	count = countTasks(pid, maxTasks)
	r.eachOrphan(func(orphan int, dir string, living bool) {
		switch {
		case dir == socketDir && count <= maxTasks:
			count += countTasks(orphan, maxTasks)
		case !living && orphaned <= maxTasks:
			orphaned += countTasks(orphan, maxTasks)
		}
	})
	r.mu.Unlock()
	if orphaned > maxTasks {
		r.endLeft("")
	}
	return count
}

// eachOrphan calls visit with every orphan, the socket directory in its environment, and
// whether a living backend process has that directory. While a start is in progress, its
// child cannot be distinguished from an orphan, so every orphan without a living backend's
// directory is reported as if it had one. The caller holds r.mu.
func (r *Reaper) eachOrphan(visit func(orphan int, socketDir string, living bool)) {
	dirs := map[string]bool{}
	for _, dir := range r.own {
		dirs[dir] = true
	}
	for _, pid := range children(os.Getpid()) {
		if _, own := r.own[pid]; !own {
			dir := socketDirIn(pid)
			visit(pid, dir, dirs[dir] || r.starting > 0)
		}
	}
}

// eachDescendant calls visit with a child of this process and all its descendants, children
// before their parents: the children of a killed parent could not be found any more.
func eachDescendant(orphan int, visit func(*os.Process)) {
	type link struct{ pid, parent int }
	all := []link{{orphan, os.Getpid()}}
	for i := 0; i < len(all); i++ {
		for _, child := range children(all[i].pid) {
			all = append(all, link{child, all[i].pid})
		}
	}
	for _, l := range slices.Backward(all) {
		withProcess(l.pid, func(process *os.Process) {
			// The ID may have been reused since it was read, but not after withProcess has
			// opened it.
			if _, parent, err := procfs.Stat(procfs.Dir(l.pid)); err == nil && parent == l.parent {
				visit(process)
			}
		})
	}
}

// countTasks returns the number of threads of a process and its descendants; it stops
// counting above the limit.
func countTasks(pid, limit int) int {
	threads, err := os.ReadDir(filepath.Join(procfs.Dir(pid), "task"))
	if err != nil {
		return 0 // it has ended
	}
	count := len(threads)
	for _, child := range children(pid) {
		if count > limit {
			break
		}
		count += countTasks(child, limit-count)
	}
	return count
}

// children returns the IDs of a process's children, including those that have ended and are
// not waited for (proc_pid_task(5); a kernel with CONFIG_PROC_CHILDREN). While children
// come and go, some may be missing.
func children(pid int) []int {
	dir := filepath.Join(procfs.Dir(pid), "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []int
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(dir, thread.Name(), "children"))
		if err != nil {
			continue // it has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
