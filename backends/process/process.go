// Package process reads from procfs the names of the processes of this node, and which of them
// have a device node open. Drivers report processes that compute, but not those that only have a
// device open, as monitors do.
package process

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

// SeesAll reports whether all processes of the node are visible: this process is in the initial
// PID namespace, and so is the procfs.
func SeesAll(procfs string) bool {
	namespace, err := os.Readlink(filepath.Join(procfs, "self/ns/pid"))
	return err == nil && namespace == initial
}

// Opened returns the other processes that have one of the device nodes open, in ascending order.
// It fails when ctx ends, and if it cannot inspect a process, since that may have one open.
// Processes that ended meanwhile are left out.
func Opened(ctx context.Context, procfs string, nodes ...string) ([]int, error) {
	entries, err := os.ReadDir(procfs)
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the processes: %w", ctx.Err())
		}
		open, err := opened(filepath.Join(procfs, entry.Name(), "fd"), nodes)
		if err != nil {
			return nil, fmt.Errorf("the open files of process %s: %w", Name(procfs, pid), err)
		}
		if open {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

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

// Name returns a process for messages: "python (1234)", or "1234" if its name cannot be read.
func Name(procfs string, pid int) string {
	text, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "comm"))
	name := strings.TrimSpace(string(text))
	if err != nil || name == "" {
		return strconv.Itoa(pid)
	}
	return fmt.Sprintf("%s (%d)", name, pid)
}

// Names returns processes for messages; of many, only the first.
func Names(procfs string, pids ...int) string {
	var names []string
	for _, pid := range pids[:min(len(pids), maxNamed)] {
		names = append(names, Name(procfs, pid))
	}
	list := strings.Join(names, ", ")
	if more := len(pids) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
