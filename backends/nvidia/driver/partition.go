package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Profile is a kind of GPU instance that a GPU in MIG mode can be divided into.
type Profile struct {
	// Name is as that of [Instance], such as "1g.10gb+me".
	Name string
	// Placements are where a GPU instance of the profile can be, in slices of memory.
	Placements []Placement
	// MemoryBytes is the memory of a GPU instance, Slices its slices of compute, Instances how many of
	// the profile there can be at a time.
	MemoryBytes       uint64
	Slices, Instances uint32
	// The numbers of engines of a GPU instance; 0 if it has none of a kind.
	Multiprocessors, CopyEngines, Decoders, Encoders, JPEGEngines, OFAEngines uint32

	info nvml.GpuInstanceProfileInfo
}

// Placement is where a GPU instance is: its first slice of memory, and how many it takes.
type Placement struct{ Start, Size uint32 }

// GPUInstance is a GPU instance, also one without compute instances.
type GPUInstance struct {
	ID        uint32
	Profile   string
	Placement Placement
}

// maxProfiles bounds the profiles of GPU and compute instances; NVML has fewer than 20 of either.
const maxProfiles = 32

// Reasons why a GPU instance was not created.
var (
	// ErrNoRoom: the GPU has no such profile or placement.
	ErrNoRoom = errors.New("the GPU cannot have a GPU instance of that profile there")
	// ErrLeft: a GPU instance without a compute instance is left.
	ErrLeft = errors.New("a GPU instance without a compute instance is left")
)

// partitions reads the profiles of a GPU in MIG mode, and its GPU instances.
func (r *reader) partitions(device nvml.Device, g *GPU) {
	for i := range maxProfiles {
		p, ok := r.profile(device, i, g.MemoryBytes)
		if !ok {
			continue
		}
		g.Profiles = append(g.Profiles, p)
		for _, gi := range r.gpuInstances(device, p) {
			g.GPUInstances = append(g.GPUInstances, gi.GPUInstance)
		}
	}
	slices.SortFunc(g.GPUInstances, func(a, b GPUInstance) int { return cmp.Compare(a.ID, b.ID) })
}

// profile reads the profile with NVML's index, which the GPU may not have.
func (r *reader) profile(device nvml.Device, index int, memory uint64) (p Profile, ok bool) {
	ok = r.call("nvmlDeviceGetGpuInstanceProfileInfo", func() (ret nvml.Return) {
		p.info, ret = device.GetGpuInstanceProfileInfo(index)
		if ret == nvml.ERROR_INVALID_ARGUMENT { // there are no further ones
			ret = nvml.ERROR_NOT_FOUND
		}
		return ret
	}) && r.call("nvmlDeviceGetGpuInstancePossiblePlacements", func() nvml.Return {
		placements, ret := device.GetGpuInstancePossiblePlacements(&p.info)
		for _, at := range placements {
			p.Placements = append(p.Placements, Placement{at.Start, at.Size})
		}
		return ret
	})
	i := p.info
	p.MemoryBytes, p.Slices, p.Instances = i.MemorySizeMB<<20, i.SliceCount, i.InstanceCount
	p.Multiprocessors, p.CopyEngines, p.Decoders, p.Encoders = i.MultiprocessorCount, i.CopyEngineCount, i.DecoderCount, i.EncoderCount
	p.JPEGEngines, p.OFAEngines = i.JpegCount, i.OfaCount
	p.Name = profile("", Instance{MemoryBytes: p.MemoryBytes, GPUSlices: p.Slices}, memory) + suffix(index)
	return p, ok && p.Slices > 0
}

// suffix distinguishes the profile with NVML's index from others of its size.
func suffix(index int) string {
	if index >= nvml.GPU_INSTANCE_PROFILE_COUNT { // of a driver that is newer than go-nvml
		return fmt.Sprintf("+nvml%d", index)
	}
	return suffixes[index]
}

// suffixes are as in the names of MIG devices (nvidia-smi mig -lgip).
var suffixes = map[int]string{
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me", nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx", nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
	nvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX: "+gfx", nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me", nvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all", nvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}

// gpuInstance is a GPU instance with its handle.
type gpuInstance struct {
	GPUInstance
	handle nvml.GpuInstance
}

// gpuInstances reads the GPU instances of a profile.
func (r *reader) gpuInstances(device nvml.Device, p Profile) (all []gpuInstance) {
	var handles []nvml.GpuInstance
	r.call("nvmlDeviceGetGpuInstances", func() (ret nvml.Return) {
		handles, ret = device.GetGpuInstances(&p.info)
		return ret
	})
	for _, handle := range handles {
		r.call("nvmlGpuInstanceGetInfo", func() nvml.Return {
			info, ret := handle.GetInfo()
			if ret == nvml.SUCCESS {
				all = append(all, gpuInstance{GPUInstance{info.Id, p.Name, Placement{info.Placement.Start, info.Placement.Size}}, handle})
			}
			return ret
		})
	}
	return all
}

// CreateInstance creates a GPU instance of a profile at a slice of memory, with one compute instance of its
// whole size. If that fails, nothing is left, except with ErrLeft. With ErrNoAnswer, and when ctx
// ends, the instance may come later. A snapshot must have read the GPU.
func (d *Driver) CreateInstance(ctx context.Context, uuid, profile string, start uint32) error {
	return d.inLane(ctx, uuid, "create a GPU instance", func(r *reader, device nvml.Device, memory uint64) {
		p, at, ok := r.find(device, memory, profile, start)
		if !ok {
			r.fail(ErrNoRoom)
			return
		}
		var gi nvml.GpuInstance
		if !r.must("nvmlDeviceCreateGpuInstanceWithPlacement", func() (ret nvml.Return) {
			gi, ret = device.CreateGpuInstanceWithPlacement(&p.info, &nvml.GpuInstancePlacement{Start: at.Start, Size: at.Size})
			return ret
		}) {
			return
		}
		if r.createCompute(gi, p.Slices); r.err != nil {
			undo := &reader{s: r.s}
			if !undo.must("nvmlGpuInstanceDestroy", gi.Destroy) {
				r.err = errors.Join(r.err, ErrLeft, undo.err)
			}
		}
	})
}

// createCompute creates the compute instance that has all slices of a GPU instance.
func (r *reader) createCompute(gi nvml.GpuInstance, slices uint32) {
	for _, info := range r.computeProfiles(gi) {
		if info.SliceCount == slices {
			r.must("nvmlGpuInstanceCreateComputeInstance", func() nvml.Return {
				_, ret := gi.CreateComputeInstance(&info)
				return ret
			})
			return
		}
	}
	if r.err == nil {
		r.fail(fmt.Errorf("%w: it has no compute instance of %d slices", ErrNoRoom, slices))
	}
}

func (r *reader) computeProfiles(gi nvml.GpuInstance) (all []nvml.ComputeInstanceProfileInfo) {
	for i := range maxProfiles {
		r.call("nvmlGpuInstanceGetComputeInstanceProfileInfo", func() nvml.Return {
			info, ret := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
			switch ret {
			case nvml.SUCCESS:
				all = append(all, info)
			case nvml.ERROR_INVALID_ARGUMENT: // there are no further ones
				ret = nvml.ERROR_NOT_FOUND
			}
			return ret
		})
	}
	return all
}

// DestroyInstance destroys the GPU instance of a profile at a slice of memory, with its compute instances; it
// does nothing if there is none. A process that uses it is an error.
func (d *Driver) DestroyInstance(ctx context.Context, uuid, profile string, start uint32) error {
	return d.inLane(ctx, uuid, "destroy a GPU instance", func(r *reader, device nvml.Device, memory uint64) {
		p, _, ok := r.find(device, memory, profile, start)
		if !ok {
			return
		}
		for _, gi := range r.gpuInstances(device, p) {
			if gi.Placement.Start == start {
				r.destroy(gi.handle)
			}
		}
	})
}

func (r *reader) destroy(gi nvml.GpuInstance) {
	for _, info := range r.computeProfiles(gi) {
		var all []nvml.ComputeInstance
		r.call("nvmlGpuInstanceGetComputeInstances", func() (ret nvml.Return) {
			all, ret = gi.GetComputeInstances(&info)
			return ret
		})
		for _, ci := range all {
			r.must("nvmlComputeInstanceDestroy", ci.Destroy)
		}
	}
	if r.err == nil {
		r.must("nvmlGpuInstanceDestroy", gi.Destroy)
	}
}

// find returns the GPU's profile of that name, and its placement at a slice.
func (r *reader) find(device nvml.Device, memory uint64, name string, start uint32) (Profile, Placement, bool) {
	for i := range maxProfiles {
		p, ok := r.profile(device, i, memory)
		if !ok || p.Name != name {
			continue
		}
		if at := slices.IndexFunc(p.Placements, func(at Placement) bool { return at.Start == start }); at >= 0 {
			return p, p.Placements[at], true
		}
	}
	return Profile{}, Placement{}, false
}

// must is call, for a function that changes something or without which nothing can be done: not supported is an
// error, too.
func (r *reader) must(function string, f func() nvml.Return) bool {
	var last nvml.Return
	ok := r.call(function, func() nvml.Return {
		last = f()
		return last
	})
	if !ok && r.err == nil {
		r.fail(failure(function, cmp.Or(last, nvml.ERROR_FUNCTION_NOT_FOUND)))
	}
	return ok
}

// inLane runs f in the lane of a GPU that a snapshot has read, and returns its error.
func (d *Driver) inLane(ctx context.Context, uuid, what string, f func(r *reader, device nvml.Device, memory uint64)) error {
	s := d.current()
	if s == nil {
		return ErrClosed
	}
	for index, g := range s.identities() {
		if g.UUID != uuid {
			continue
		}
		failed, err := within(ctx, d, s, d.lane(index), fmt.Sprintf("%s of GPU %d", what, index), func() error {
			r := &reader{s: s}
			if device, ok := r.handle(index); ok {
				f(r, device, g.MemoryBytes)
			}
			return r.err
		})
		return errors.Join(err, failed)
	}
	return fmt.Errorf("%s of GPU %s: %w: there is no such GPU", what, uuid, ErrFailed)
}
