package nvidia

import (
	"cmp"
	"context"
	"slices"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

// targets are what a call is for.
type targets struct {
	sdk.Targets
	cfg    *config
	driver *driver.Driver
	// devices are those asked for, of which GPUs; more than one may be of one GPU.
	devices []target
	// group are all GPUs that a reset of one of them takes along.
	group []driver.GPU
	// lent is a reset that is on its way, or nil.
	lent *hold
}

// target is a device: a GPU, or one of its MIG devices.
type target struct {
	id       string
	gpu      driver.GPU
	instance *driver.Instance // nil: the whole GPU
}

// find says what there is to the devices.
func (b *Backend) find(ctx context.Context, ids []string) (*targets, error) {
	return sdk.InLoop(ctx, b.asks, func(l *loop) *targets { return l.find(ids) })
}

func (l *loop) find(ids []string) *targets {
	t := &targets{cfg: l.cfg, driver: l.driver, lent: l.lent}
	joined := groupsOf(l.links)
	groupOf := func(uuid string) string { return cmp.Or(joined[uuid], uuid) }
	groups := map[string]bool{}
	for _, id := range ids {
		found := l.roster.device(id)
		if found == nil {
			t.Unknown = append(t.Unknown, id)
			continue
		}
		t.devices = append(t.devices, *found)
		groups[groupOf(found.gpu.UUID)] = true
	}
	for _, known := range l.roster.sorted() {
		if groups[groupOf(known.gpu.UUID)] {
			t.group = append(t.group, known.gpu)
		}
	}
	listed, _ := l.listing().devices(l.roster)
	for _, d := range listed {
		if groups[d.GetResetGroup()] && !slices.Contains(ids, d.GetId()) {
			t.Others = append(t.Others, d.GetId())
		}
	}
	return t
}

// device is the GPU or MIG device of an ID, or nil.
func (r *roster) device(id string) *target {
	if known := r.gpus[id]; known != nil {
		return &target{id: id, gpu: known.gpu}
	}
	for _, known := range r.gpus {
		for _, i := range known.gpu.Instances {
			if i.UUID == id {
				return &target{id: id, gpu: known.gpu, instance: &i}
			}
		}
	}
	return nil
}

// uuids are those of the group.
func (t *targets) uuids() []string {
	all := make([]string, len(t.group))
	for i, g := range t.group {
		all[i] = g.UUID
	}
	return all
}

func (t *targets) toReset() []reset.GPU {
	all := make([]reset.GPU, len(t.group))
	for i, g := range t.group {
		all[i] = reset.GPU{UUID: g.UUID, PCIBusID: g.PCIBusID, Minor: g.Minor}
	}
	return all
}

// users are the processes that use the device, as far as NVML tells.
func (t *targets) users(ctx context.Context, of target) ([]int, error) {
	all, err := t.driver.Processes(ctx, of.gpu.UUID)
	var pids []int
	for _, p := range all {
		if i := of.instance; i == nil || p.GPUInstance == i.GPUInstance && p.ComputeInstance == i.ComputeInstance {
			pids = append(pids, int(p.PID))
		}
	}
	return pids, err
}
