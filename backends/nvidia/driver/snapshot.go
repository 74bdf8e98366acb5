package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Snapshot reads all GPUs, side by side. An error means that nothing can be said
// of any of them: ErrClosed, ErrDriverGone (close, and open again), ErrNoAnswer,
// or that of ctx. What concerns one GPU is in its Err. It takes no longer than
// three times the timeout of the options.
func (d *Driver) Snapshot(ctx context.Context) (Snapshot, error) {
	s := d.current()
	if s == nil {
		return Snapshot{}, ErrClosed
	}
	return d.read(ctx, s, nil)
}

// Update is a snapshot for which only those GPUs are asked that are named by UUID:
// an event of one of many is answered sooner, and costs the others nothing. They
// are as they were read last. All are asked if one of the names is not known, if
// NVML counts another number of GPUs than before, or if a GPU says that there is no
// driver. It takes as long as Snapshot at most.
func (d *Driver) Update(ctx context.Context, uuids []string) (Snapshot, error) {
	s := d.current()
	if s == nil {
		return Snapshot{}, ErrClosed
	}
	return d.read(ctx, s, uuids)
}

// read asks the GPUs with these UUIDs; all if there are none.
func (d *Driver) read(ctx context.Context, s *session, uuids []string) (Snapshot, error) {
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
	var asked []int
	snapshot.GPUs, asked = s.earlier(n.value, uuids)
	each(len(asked), func(k int) {
		i := asked[k]
		g, err := within(ctx, d, s, d.lane(i), fmt.Sprintf("GPU %d", i), func() GPU { return s.readGPU(i) })
		if err != nil {
			g = GPU{Index: i, Minor: -1, Err: err}
		}
		snapshot.GPUs[i] = s.remember(g)
	})
	if ctx.Err() != nil {
		return Snapshot{}, fmt.Errorf("read the GPUs: %w", ctx.Err())
	}
	failed := make([]error, len(asked))
	for k, i := range asked {
		failed[k] = snapshot.GPUs[i].Err
	}
	if len(asked) < n.value && slices.ContainsFunc(failed, gone) {
		return d.read(ctx, s, nil)
	}
	if err := allGone(failed); err != nil {
		return Snapshot{}, err
	}
	s.keep(snapshot.GPUs)
	snapshot.Links = d.readLinks(ctx, s, snapshot.GPUs)
	return snapshot, nil
}

// earlier are n GPUs as the last snapshot has them, and the indices of those that
// must be asked: the ones with these UUIDs, or all.
func (s *session) earlier(n int, uuids []string) (gpus []GPU, asked []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uuid := range uuids {
		if i := slices.IndexFunc(s.last, func(g GPU) bool { return g.UUID == uuid }); i >= 0 {
			asked = append(asked, i)
		}
	}
	if len(asked) > 0 && len(asked) == len(uuids) && len(s.last) == n {
		return slices.Clone(s.last), asked
	}
	asked = make([]int, n)
	for i := range asked {
		asked[i] = i
	}
	return make([]GPU, n), asked
}

// keep keeps the GPUs for the next snapshot.
func (s *session) keep(gpus []GPU) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = slices.Clone(gpus)
}

// system tells an error of the whole driver: one that cannot be used any more
// has gone, whatever words it has for that.
func system(err error) error {
	if gone(err) && !errors.Is(err, ErrDriverGone) {
		return fmt.Errorf("%w: %w", ErrDriverGone, err)
	}
	return err
}

// allGone is ErrDriverGone if all GPUs say that there is no driver. One that says
// so alone is that GPU's trouble.
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

// each calls f for 0 to n-1 side by side, and waits for all.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// handle is NVML's of a GPU; it attaches the GPU, which may take a second.
func (r *reader) handle(index int) (nvml.Device, bool) {
	var device nvml.Device
	ok := r.call("nvmlDeviceGetHandleByIndex", func() (ret nvml.Return) {
		device, ret = r.s.lib.DeviceGetHandleByIndex(index)
		// Without a handle there is no GPU: never mere absence.
		if absent(ret) {
			r.fail(failure("nvmlDeviceGetHandleByIndex", ret))
		}
		return ret
	})
	return device, ok
}
