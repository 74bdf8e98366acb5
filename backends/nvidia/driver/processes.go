package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Process is a process that has a GPU open.
type Process struct {
	// PID is in the PID namespace of the driver, the host's.
	PID uint32
	// MemoryBytes is the GPU's memory that it has allocated; 0 if unknown.
	MemoryBytes uint64
	// GPUInstance and ComputeInstance are the MIG device that it uses; [Whole] if
	// the GPU is not in MIG mode.
	GPUInstance, ComputeInstance uint32
}

// Processes returns the processes that use a GPU or its MIG devices, by PID. A snapshot
// must have read the GPU. The error is ErrNotSupported if the driver does not report
// processes.
func (d *Driver) Processes(ctx context.Context, uuid string) ([]Process, error) {
	s := d.current()
	if s == nil {
		return nil, ErrClosed
	}
	for index, g := range s.identities() {
		if g.UUID != uuid {
			continue
		}
		found, err := within(ctx, d, s, d.lane(index), fmt.Sprintf("processes of GPU %d", index),
			func() outcome[[]Process] { return s.processes(index) })
		if err = errors.Join(err, found.err); err != nil {
			return nil, err
		}
		return found.value, nil
	}
	return nil, fmt.Errorf("processes of GPU %s: %w: there is no such GPU", uuid, ErrFailed)
}

// processes reads those of one GPU. It runs in the GPU's lane.
func (s *session) processes(index int) outcome[[]Process] {
	r := &reader{s: s}
	device, ok := r.handle(index)
	if !ok {
		return outcome[[]Process]{err: r.err}
	}
	byPID := map[uint32]Process{}
	known := false
	for _, kind := range []struct {
		function string
		read     func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"nvmlDeviceGetGraphicsRunningProcesses", device.GetGraphicsRunningProcesses},
		{"nvmlDeviceGetComputeRunningProcesses", device.GetComputeRunningProcesses},
	} {
		known = r.call(kind.function, func() nvml.Return {
			infos, ret := kind.read()
			for _, info := range infos {
				p := Process{PID: info.Pid, MemoryBytes: info.UsedGpuMemory, GPUInstance: info.GpuInstanceId,
					ComputeInstance: info.ComputeInstanceId}
				if p.MemoryBytes == math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
					p.MemoryBytes = 0
				}
				byPID[p.PID] = p
			}
			return ret
		}) || known
	}
	if r.err == nil && !known {
		r.fail(fmt.Errorf("nvmlDeviceGetComputeRunningProcesses: %w", ErrNotSupported))
	}
	all := make([]Process, 0, len(byPID))
	for _, p := range byPID {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return outcome[[]Process]{all, r.err}
}
