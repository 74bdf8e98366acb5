package reset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Computing returns the processes that use one of the GPUs by KFD's list, in ascending order: <sysfs>/class/kfd/kfd/proc/<pid>/queues/<n>/gpuid for those that
// compute, vram_<gpu id> with the bytes for those that hold memory
// (drivers/gpu/drm/amd/amdkfd/kfd_process.c). KFD lists processes of all PID
// namespaces, by their numbers on the host. Without KFD there are none. A process that
// ended meanwhile is left out.
func Computing(sysfs string, ids []uint32) ([]int, error) {
	all, err := Processes(sysfs)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range all {
		uses, err := uses(filepath.Join(sysfs, processes, strconv.Itoa(pid)), ids)
		if err != nil {
			return nil, fmt.Errorf("KFD's process %d: %w", pid, err)
		}
		if uses {
			found = append(found, pid)
		}
	}
	return found, nil
}

// processes is where KFD lists processes, below the root of sysfs.
const processes = "class/kfd/kfd/proc"

// Processes returns the processes that have opened /dev/kfd, in ascending order.
func Processes(sysfs string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(sysfs, processes))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list KFD's processes: %w", err)
	}
	var found []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// uses reports whether the process has memory or a queue on one of the GPUs.
func uses(dir string, ids []uint32) (bool, error) {
	for _, id := range ids {
		bytes, err := number(filepath.Join(dir, fmt.Sprintf("vram_%d", id)))
		if err != nil {
			return false, err
		}
		if bytes > 0 {
			return true, nil
		}
	}
	queues, err := os.ReadDir(filepath.Join(dir, "queues"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	for _, queue := range queues {
		id, err := number(filepath.Join(dir, "queues", queue.Name(), "gpuid"))
		if err != nil {
			return false, err
		}
		if slices.Contains(ids, uint32(id)) {
			return true, nil
		}
	}
	return false, nil
}

// number returns the number in a file; 0 if there is no such file (any more).
func number(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s has no number: %q", path, text)
	}
	return n, nil
}
