package openfiles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// initial is the initial PID namespace, whose inode the kernel has fixed
// (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initial = "pid:[4026531836]"

// maxNamed is the number of processes that a message names.
const maxNamed = 8

// Process is a process of this node.
type Process struct {
	PID int `json:"pid"`
	// Name is its name in messages of the kernel (comm); "" if it cannot be read.
	Name string `json:"name,omitempty"`
}

// Processes are some processes. As text, for messages, they are "python (1234), 1235"; of many, the first 8.
type Processes []Process

// String implements [fmt.Stringer].
func (p Processes) String() string {
	var names []string
	for _, one := range p[:min(len(p), maxNamed)] {
		name := strconv.Itoa(one.PID)
		if one.Name != "" {
			name = fmt.Sprintf("%s (%d)", one.Name, one.PID)
		}
		names = append(names, name)
	}
	list := strings.Join(names, ", ")
	if more := len(p) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Named returns the processes with these IDs, with their names.
func Named(procfs string, pids ...int) (p Processes) {
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "comm"))
		if err != nil {
			text = nil
		}
		p = append(p, Process{pid, strings.TrimSpace(string(text))})
	}
	return p
}

// SeesAll reports whether all processes of the node are visible: this process is in the initial
// PID namespace, and so is the procfs.
func SeesAll(procfs string) bool {
	namespace, err := os.Readlink(filepath.Join(procfs, "self/ns/pid"))
	return err == nil && namespace == initial
}

// Scan returns the processes that have one of the device nodes open, without the process except, in ascending
// order, at most [MaxProcesses]. It fails when ctx ends, and if it cannot inspect a process, which may have one
// open. Processes that ended meanwhile are left out.
func Scan(ctx context.Context, procfs string, except int, nodes ...string) (Processes, error) {
	entries, err := os.ReadDir(procfs)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == except {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the processes: %w", ctx.Err())
		}
		open, err := opened(filepath.Join(procfs, entry.Name(), "fd"), nodes)
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: that needs CAP_SYS_PTRACE", err)
		}
		if err != nil {
			return nil, fmt.Errorf("the open files of process %s: %w", Named(procfs, pid), err)
		}
		if open {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return Named(procfs, found[:min(len(found), MaxProcesses)]...), nil
}

// opened reports whether a link in a directory /proc/PID/fd leads to one of the nodes.
func opened(dir string, nodes []string) (bool, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, unlessGone(err)
	}
	for _, file := range files {
		to, err := os.Readlink(filepath.Join(dir, file.Name()))
		if err == nil && slices.Contains(nodes, to) {
			return true, nil
		}
		if unlessGone(err) != nil {
			return false, err
		}
	}
	return false, nil
}

// unlessGone returns nil if the error means that something no longer exists.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
