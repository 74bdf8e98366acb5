package nvidia

import (
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/reset"
	"github.com/accelmux/accelmux/backends/process"
)

// Reset implements [engine.Driver]: it resets all GPUs of the group. The driver is closed
// meanwhile, since NVIDIA's driver resets no GPU that any process has open: for some seconds
// no GPU is read, and an event of another GPU is only noticed by its effects.
func (s source) Reset(ctx context.Context, targets []engine.Target) (done string, err error) {
	group, err := s.board(ctx, targets[0])
	if err != nil {
		return "", err
	}
	if err := s.free(ctx, group, true); err != nil {
		return "", err
	}
	if err := s.b.conn.Close(ctx); err != nil {
		return "", fmt.Errorf("no reset while this process itself has the GPU open: %w", err)
	}
	var gpus []reset.GPU
	for _, g := range group {
		gpus = append(gpus, reset.GPU{UUID: g.UUID, PCIBusID: g.PCIBusID})
	}
	if done, err = s.cfg.means.Reset(ctx, s.b.resetter, gpus); err != nil {
		return "", err
	}
	for _, g := range group {
		if len(g.Instances) > 0 {
			done += fmt.Sprintf("; this ended the MIG devices of %s: create them again", g.UUID)
		}
	}
	return done, nil
}

// board returns the GPUs that a reset of one affects, in the order of the bus. Some may have no devices that are listed.
func (s source) board(ctx context.Context, t engine.Target) (all []driver.GPU, err error) {
	err = s.b.Do(ctx, func(known engine.Known) {
		for _, u := range known.Units() {
			if u.Unit.Board == t.Unit.Board {
				all = append(all, readingOf(u.Unit).GPU)
			}
		}
	})
	return all, err
}

// freeBoard returns an error if one of the GPUs that a reset of one affects is in use, or if that is not known.
func (s source) freeBoard(ctx context.Context, t engine.Target) error {
	group, err := s.board(ctx, t)
	if err != nil {
		return err
	}
	return s.free(ctx, group, false)
}

// free returns an error if NVML lists processes that use one of the GPUs. With pass, GPUs that
// cannot be read, as many that need a reset, are skipped: nvidia-smi finds users, too, and the core has looked before a reset by PCI.
func (s source) free(ctx context.Context, group []driver.GPU, pass bool) error {
	for _, g := range group {
		users, err := s.users(ctx, g.UUID, nil)
		if ctx.Err() != nil || err != nil && !pass {
			return fmt.Errorf("see whether GPU %s is in use: %w", g.UUID, errors.Join(ctx.Err(), err))
		}
		if err == nil && len(users) > 0 {
			return fmt.Errorf("GPU %s is in use by %s: end them, then it can be reset", g.UUID, process.Named(s.cfg.host.Procfs, users...))
		}
	}
	return nil
}

// users returns the processes of a GPU, or of one of its MIG devices, as far as NVML lists them.
func (s source) users(ctx context.Context, uuid string, instance *driver.Instance) (pids []int, err error) {
	all, err := s.b.conn.driver.Load().Processes(ctx, uuid)
	for _, p := range all {
		if i := instance; i == nil || p.GPUInstance == i.GPUInstance && p.ComputeInstance == i.ComputeInstance {
			pids = append(pids, int(p.PID))
		}
	}
	return pids, err
}
