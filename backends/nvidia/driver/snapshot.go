package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Snapshot reads all GPUs at the same time. An error means that no GPU could be
// read: ErrClosed, ErrDriverGone (close, and open again), ErrNoAnswer, or that of
// ctx. An error of one GPU is in its Err. Snapshot takes no longer than three times
// the timeout of the options.
func (d *Driver) Snapshot(ctx context.Context) (Snapshot, error) {
	s := d.current()
	if s == nil {
		return Snapshot{}, ErrClosed
	}
	if err := d.vanished(s); err != nil {
		return Snapshot{}, err
	}
	n, err := within(ctx, d, s, d.system, "nvmlDeviceGetCount", func() outcome[int] {
		n, err := s.count()
		return outcome[int]{n, err}
	})
	if err = errors.Join(err, n.err); err != nil {
		return Snapshot{}, system(err)
	}
	snapshot := Snapshot{DriverVersion: s.driverVersion, CUDAVersion: s.cudaVersion}
	snapshot.GPUs = make([]GPU, n.value)
	failed := make([]error, n.value)
	each(n.value, func(i int) {
		snapshot.GPUs[i] = d.readGPU(ctx, s, i)
		failed[i] = snapshot.GPUs[i].Err
	})
	if ctx.Err() != nil {
		return Snapshot{}, fmt.Errorf("read the GPUs: %w", ctx.Err())
	}
	if err := allGone(failed); err != nil {
		return Snapshot{}, err
	}
	snapshot.Links = d.readLinks(ctx, s, snapshot.GPUs)
	return snapshot, nil
}

// Read reads GPUs at the same time, as Snapshot does. It leaves out UUIDs that were not read
// since the driver was opened. If a GPU reports that there is no driver, it returns ErrDriverGone.
func (d *Driver) Read(ctx context.Context, uuids ...string) ([]GPU, error) {
	s := d.current()
	if s == nil {
		return nil, ErrClosed
	}
	if err := d.vanished(s); err != nil {
		return nil, err
	}
	var indices []int
	for i, g := range s.identities() {
		if slices.Contains(uuids, g.UUID) {
			indices = append(indices, i)
		}
	}
	gpus := make([]GPU, len(indices))
	each(len(indices), func(k int) { gpus[k] = d.readGPU(ctx, s, indices[k]) })
	for _, g := range gpus {
		if gone(g.Err) {
			return nil, system(g.Err)
		}
	}
	return gpus, ctx.Err()
}

// readGPU reads one GPU in its lane, within the time limit.
func (d *Driver) readGPU(ctx context.Context, s *session, i int) GPU {
	g, err := within(ctx, d, s, d.lane(i), fmt.Sprintf("GPU %d", i), func() GPU { return s.readGPU(i) })
	if err != nil {
		g = GPU{Index: i, Minor: -1, Err: err}
	}
	return s.remember(g)
}

// system returns an error of the whole driver. It wraps every error that makes the driver
// unusable in ErrDriverGone.
func system(err error) error {
	if gone(err) && !errors.Is(err, ErrDriverGone) {
		return fmt.Errorf("%w: %w", ErrDriverGone, err)
	}
	return err
}

// allGone returns ErrDriverGone if all GPUs report that there is no driver. If only some
// do, the fault is theirs.
func allGone(gpus []error) error {
	for _, err := range gpus {
		if !gone(err) {
			return nil
		}
	}
	if len(gpus) == 0 {
		return nil
	}
	return system(gpus[0])
}

// each calls f concurrently for 0 to n-1, and waits for all calls.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// handle returns NVML's handle of a GPU. It attaches the GPU, which may take a second.
func (r *reader) handle(index int) (nvml.Device, bool) {
	var device nvml.Device
	ok := r.call("nvmlDeviceGetHandleByIndex", func() (ret nvml.Return) {
		device, ret = r.s.lib.DeviceGetHandleByIndex(index)
		// Without a handle no GPU can be read, so absence is an error here.
		if absent(ret) {
			r.fail(failure("nvmlDeviceGetHandleByIndex", ret))
		}
		return ret
	})
	return device, ok
}
