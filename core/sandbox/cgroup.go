package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroup enters the program's cgroup.
func (s *shim) cgroup() {
	switch {
	case s.Container:
		s.measured(Cgroup, ofContainer, nil)
	case s.Cgroup == "":
		s.measured(Cgroup, "", errors.New(s.NoCgroup))
	default:
		s.measured(Cgroup, s.NoCgroup, os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte("0"), 0))
	}
}

// Cgroups makes cgroups for programs below that of this process.
type Cgroups struct {
	dir string
	// Lacking lists the controllers that the cgroups do not have, because the agent's does not.
	Lacking []string
}

// controllers are those that bound a program. The first one is required.
var controllers = []string{"memory", "pids", "cpu"}

// OpenCgroups prepares this process's cgroup for cgroups below it. A cgroup with processes of its own cannot
// bound others (the "no internal processes" rule of cgroups(7)), so this process moves into one below. It also
// ends what an earlier agent left there. procfs is this process's own /proc. The error names what is missing.
func OpenCgroups(procfs string) (*Cgroups, error) {
	root, err := cgroupRoot(filepath.Join(procfs, "self"))
	if err != nil {
		return nil, err
	}
	const own = "agent"
	if filepath.Base(root) == own { // it has moved already
		root = filepath.Dir(root)
	}
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("read the controllers of the agent's cgroup: %w", err)
	}
	var have, lacking []string
	for _, c := range controllers {
		if slices.Contains(strings.Fields(string(available)), c) {
			have = append(have, c)
		} else {
			lacking = append(lacking, c)
		}
	}
	if !slices.Contains(have, controllers[0]) {
		return nil, fmt.Errorf("the agent's cgroup has no controller %s of cgroups version 2", controllers[0])
	}
	if others, err := otherProcesses(root); err != nil || others {
		return nil, errors.Join(err, errors.New("the agent's cgroup has other processes, too"))
	}
	inner := filepath.Join(root, own)
	if err := os.Mkdir(inner, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("the agent's cgroup is not delegated to it (Delegate=yes of systemd): %w", err)
	}
	if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte("0"), 0); err != nil {
		return nil, fmt.Errorf("move the agent into a cgroup of its own: %w", err)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+strings.Join(have, " +")), 0); err != nil {
		return nil, fmt.Errorf("pass the controllers of the agent's cgroup on: %w", err)
	}
	c := &Cgroups{dir: root, Lacking: lacking}
	c.sweep()
	return c, nil
}

// otherProcesses reports whether a cgroup has processes other than this one.
func otherProcesses(dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return false, fmt.Errorf("read the processes of the agent's cgroup: %w", err)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return true, nil
		}
	}
	return false, nil
}

// cgroupRoot returns the directory of a process's cgroup of version 2. process is its directory in /proc.
func cgroupRoot(process string) (string, error) {
	text, err := os.ReadFile(filepath.Join(process, "cgroup"))
	if err != nil {
		return "", fmt.Errorf("find the agent's cgroup: %w", err)
	}
	mounts, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		return "", fmt.Errorf("find the agent's cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		at, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			// Fields of proc_pid_mountinfo(5): 3 is the root in the file system, 4 the mount point.
			fields := strings.Fields(mount)
			before, after, _ := strings.Cut(mount, " - ")
			if rest := strings.Fields(after); len(fields) < 5 || before == "" || len(rest) == 0 || rest[0] != "cgroup2" {
				continue
			}
			below, err := filepath.Rel(fields[3], at)
			if err == nil && below != ".." && !strings.HasPrefix(below, "../") {
				return filepath.Join(fields[4], below), nil
			}
		}
	}
	return "", errors.New("this machine has no cgroups of version 2, or the agent does not see its own")
}

// prefix begins the names of the cgroups of programs.
const prefix = "backend-"

// Make makes a cgroup with the bounds of a policy. The name is unique among those of running programs.
func (c *Cgroups) Make(name string, p Policy) (dir string, err error) {
	dir = filepath.Join(c.dir, prefix+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	for file, value := range map[string]int64{"memory.max": p.Memory, "pids.max": int64(p.PIDs), "cpu.weight": int64(p.CPUWeight), "memory.oom.group": 1} {
		controller, _, _ := strings.Cut(file, ".")
		if value <= 0 || slices.Contains(c.Lacking, controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(value, 10)), 0); err != nil {
			return "", errors.Join(fmt.Errorf("bound a cgroup: %w", err), os.Remove(dir))
		}
	}
	return dir, nil
}

// OutOfMemory reports whether the kernel has killed a process of a cgroup because memory ran out (oom_kill of
// memory.events in cgroup-v2.rst).
func OutOfMemory(dir string) bool {
	text, _ := os.ReadFile(filepath.Join(dir, "memory.events")) // none without the controller
	return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
		count, ok := strings.CutPrefix(line, "oom_kill ")
		return ok && count != "0"
	})
}

// End kills all processes of a cgroup that Make has made, and removes it. It fails until they have ended:
// call it again.
func (c *Cgroups) End(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // since Linux 5.14
	if removed := os.Remove(dir); removed != nil {
		return errors.Join(err, removed)
	}
	return nil
}

// sweep ends what an earlier process left.
func (c *Cgroups) sweep() {
	left, _ := filepath.Glob(filepath.Join(c.dir, prefix+"*"))
	for _, dir := range left {
		_ = c.End(dir) // the next agent removes those whose processes have not ended yet
	}
}
