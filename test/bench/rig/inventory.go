package rig

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
)

// FirstInventory is how long it takes from the start of a backend's process to its
// devices. The mock backend, which reads nothing, and cat of the files that the backend
// reads (patterns below the directory's sys) are the floor, taken in turn. The limit is
// in milliseconds.
func FirstInventory(bin, dir string, read []string, spec supervisor.Spec, devices, starts int, limit float64) (Figure, error) {
	var files []string
	for _, pattern := range read {
		matches, err := filepath.Glob(filepath.Join(dir, "sys", pattern))
		if err != nil || len(matches) == 0 {
			return Figure{}, fmt.Errorf("no file is %s: %w", pattern, err)
		}
		files = append(files, matches...)
	}
	mock := supervisor.Spec{Name: "mock", Command: "accelmux-backend-mock", Settings: fmt.Appendf(nil, `{"count": %d}`, devices)}
	var floors, all, cats, beyond []time.Duration
	for range starts {
		floor, err := First(bin, dir, mock, devices)
		if err != nil {
			return Figure{}, err
		}
		took, err := First(bin, dir, spec, devices)
		if err != nil {
			return Figure{}, err
		}
		reading, err := Cat(files)
		if err != nil {
			return Figure{}, err
		}
		floors, all, cats = append(floors, floor), append(all, took), append(cats, reading)
		beyond = append(beyond, took-floor-reading)
	}
	return Figure{
		What: "first inventory, beyond cat and the floor", Value: Milliseconds(Median(beyond)), Limit: limit, Unit: "ms",
		Floor: Milliseconds(Median(floors)), FloorIs: "all of the mock backend's", Beyond: true,
		Note: fmt.Sprintf("%d starts, %.1f ms in all, cat of %d files %.1f ms", starts,
			Milliseconds(Median(slices.Clone(all))), len(files), Milliseconds(Median(cats))),
	}, nil
}
