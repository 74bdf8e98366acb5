package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/nvml"
)

// firstInventory measures how long it takes from the start of a backend's process to its
// devices. The floor is the start of the mock backend, which asks no hardware, so one start
// of a go-plugin process, and the time of the NVML calls; the two backends are started in
// turns. What is beyond the floor goes into the edits and the inventory.
func firstInventory(bin, library, dir string, starts int) ([]rig.Figure, error) {
	double, err := newDouble(library, dir)
	if err != nil {
		return nil, err
	}
	specs := []supervisor.Spec{
		{Name: "mock", Command: "accelmux-backend-mock", Settings: fmt.Appendf(nil, `{"count": %d}`, gpus)},
		{
			Name: "nvidia", Command: "accelmux-backend-nvidia", Env: map[string]string{
				"ACCELMUX_NVML_FILE": filepath.Join(dir, "nvml.conf"), "ACCELMUX_NVML_CALLS": filepath.Join(dir, "nvml.calls"),
			},
			Settings: fmt.Appendf(nil, `{"library": %q, "edits": {"driverRoot": %q}}`, double.Library(), filepath.Join(dir, "driver")),
		},
	}
	took := map[string][]time.Duration{}
	var first, asked, beyond []time.Duration
	for i := range starts {
		if err := os.Remove(filepath.Join(dir, "nvml.calls")); err != nil && i > 0 {
			return nil, err
		}
		var began time.Time
		for _, spec := range specs {
			began = time.Now()
			t, err := rig.First(bin, dir, spec, gpus)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", spec.Name, err)
			}
			took[spec.Name] = append(took[spec.Name], t)
		}
		calls, err := double.Calls()
		if err != nil {
			return nil, err
		}
		asked = append(asked, reading(calls))
		if len(calls) > 0 {
			first = append(first, calls[0].Time.Sub(began))
		}
		beyond = append(beyond, took["nvidia"][i]-took["mock"][i]-asked[i])
	}
	median := func(of []time.Duration) float64 { return rig.Milliseconds(rig.Median(of)) }
	all, mock, calls, rest := median(took["nvidia"]), median(took["mock"]), median(asked), median(beyond)
	return []rig.Figure{
		{
			What: "start to first inventory", Value: all, Unit: "ms", Floor: mock + calls,
			FloorIs: fmt.Sprintf("the mock backend's start %.1f ms, NVML's calls %.1f ms", mock, calls),
			Note:    fmt.Sprintf("%d starts, NVML's first answer after %.1f ms", starts, median(first)),
		},
		{
			What: "first inventory, beyond NVML and the floor", Value: rest, Limit: 10, Unit: "ms",
			Floor: mock, FloorIs: "all of the mock backend's", Beyond: true,
		},
	}, nil
}

// reading is the time from NVML's first answer until all events are registered,
// which is when it has said all that the first inventory needs.
func reading(calls []nvml.Call) time.Duration {
	var last time.Time
	for _, c := range calls {
		if c.Function == "nvmlDeviceRegisterEvents" {
			last = c.Time
		}
	}
	if len(calls) == 0 || last.IsZero() {
		return 0
	}
	return last.Sub(calls[0].Time)
}

// newDouble is a driver, and what a node has of it, in a directory.
func newDouble(library, dir string) (*nvml.Double, error) {
	double, err := nvml.New(library, dir)
	if err != nil {
		return nil, err
	}
	if _, err := nvml.NewHost(dir, gpus); err != nil {
		return nil, err
	}
	return double, double.Update(func(s nvml.State) {
		slots := make([]int, gpus)
		for slot := range gpus {
			s.AddGPU(slot)
			slots[slot] = slot
		}
		s.Switched(18, slots...)
	})
}
