package driver_test

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

func TestProcesses(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	l.GPUs[1].SetProcesses(nvml.ProcessInfo{Pid: 200, UsedGpuMemory: 5, GpuInstanceId: driver.Whole, ComputeInstanceId: driver.Whole},
		nvml.ProcessInfo{Pid: 100, UsedGpuMemory: math.MaxUint64, GpuInstanceId: 2})
	d := open(t, l)
	s := snapshot(t, d)
	got, err := d.Processes(t.Context(), s.GPUs[1].UUID)
	want := []driver.Process{{PID: 100, GPUInstance: 2}, {PID: 200, MemoryBytes: 5, GPUInstance: driver.Whole, ComputeInstance: driver.Whole}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := d.Processes(t.Context(), s.GPUs[0].UUID); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	_, err = d.Processes(t.Context(), "GPU-0")
	wantError(t, err, driver.ErrFailed)
	l.Lose(1)
	_, err = d.Processes(t.Context(), s.GPUs[1].UUID)
	wantError(t, err, driver.ErrLost)
}
