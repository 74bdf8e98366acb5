package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/nvml"
)

// firstInventory is how long it takes from the start of a backend's process to its
// devices, beyond NVML's own time. The mock backend, which asks nobody, is the
// floor, started in turn: the rest is what is made of NVML's answers, and the edits.
func firstInventory(bin, library, dir string, starts int) ([]figure, error) {
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
	var asked, beyond []time.Duration
	for i := range starts {
		if err := os.Remove(filepath.Join(dir, "nvml.calls")); err != nil && i > 0 {
			return nil, err
		}
		for _, spec := range specs {
			t, err := start(bin, dir, spec)
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
		beyond = append(beyond, took["nvidia"][i]-took["mock"][i]-asked[i])
	}
	all := milliseconds(median(slices.Clone(took["nvidia"])))
	return []figure{{
		what: "first inventory, beyond NVML and the floor", value: milliseconds(median(beyond)), limit: 10, unit: "ms",
		floor: milliseconds(median(took["mock"])), floorIs: "all of the mock backend's", beyond: true,
		note: fmt.Sprintf("%d starts, %.1f ms in all, NVML %.1f ms", starts, all, milliseconds(median(asked))),
	}}, nil
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

// start starts a backend and waits for its devices.
func start(bin, dir string, spec supervisor.Spec) (took time.Duration, err error) {
	run, err := os.MkdirTemp(dir, "r")
	if err != nil {
		return 0, err
	}
	sink := &sink{listed: make(chan time.Time, 1), lost: make(chan error, 1)}
	s, err := supervisor.New(supervisor.Options{
		BackendDir: bin, RunDir: run, Sink: sink,
		Paths: &backendv1.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: filepath.Join(dir, "proc")},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(context.Background()), os.RemoveAll(run)) }()
	began := time.Now()
	s.Apply([]supervisor.Spec{spec})
	select {
	case at := <-sink.listed:
		return at.Sub(began), nil
	case err := <-sink.lost:
		return 0, err
	case <-time.After(patience):
		return 0, fmt.Errorf("no devices within %v: %+v", patience, s.Status())
	}
}

// sink waits for all devices.
type sink struct {
	listed chan time.Time
	lost   chan error
}

func (*sink) Started(string, inventory.Description) {}
func (*sink) Changed(string)                        {}

func (s *sink) Report(_ string, i *backendv1.Inventory) error {
	if len(i.GetDevices()) == gpus {
		select {
		case s.listed <- time.Now():
		default:
		}
	}
	return nil
}

func (s *sink) Lost(_ string, reason error) {
	select {
	case s.lost <- reason:
	default:
	}
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
