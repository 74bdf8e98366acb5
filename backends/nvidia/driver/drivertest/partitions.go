package drivertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// gpuInstance is a GPU instance that was created by NVML, with a compute instance of its own size or none.
type gpuInstance struct {
	info     nvml.GpuInstanceInfo
	profile  nvml.GpuInstanceProfileInfo
	instance *Instance
}

// placements are those of an H100 with 80 GB, by the index of the profile, as nvidia-smi mig -lgipp prints them.
var placements = map[uint32][]nvml.GpuInstancePlacement{
	nvml.GPU_INSTANCE_PROFILE_1_SLICE:      placed(1, 0, 1, 2, 3, 4, 5, 6),
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: placed(1, 0, 1, 2, 3, 4, 5, 6),
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2: placed(2, 0, 2, 4, 6),
	nvml.GPU_INSTANCE_PROFILE_2_SLICE:      placed(2, 0, 2, 4),
	nvml.GPU_INSTANCE_PROFILE_3_SLICE:      placed(4, 0, 4),
	nvml.GPU_INSTANCE_PROFILE_4_SLICE:      placed(4, 0),
	nvml.GPU_INSTANCE_PROFILE_7_SLICE:      placed(8, 0),
}

func placed(size uint32, starts ...uint32) (all []nvml.GpuInstancePlacement) {
	for _, start := range starts {
		all = append(all, nvml.GpuInstancePlacement{Start: start, Size: size})
	}
	return all
}

// servePartitions serves the functions that create and destroy GPU instances. The profiles are those of go-nvml's
// mock servers; unlike with these, two GPU instances cannot be in one place.
func (g *GPU) servePartitions() {
	g.GetGpuInstanceProfileInfoFunc = func(index int) (info nvml.GpuInstanceProfileInfo, ret nvml.Return) {
		if ret := g.l.enter(g.index, "nvmlDeviceGetGpuInstanceProfileInfo"); ret != nvml.SUCCESS {
			return info, ret
		}
		info, ok := g.Config.MIGProfiles.GpuInstanceProfiles[index]
		if !ok {
			return info, nvml.ERROR_NOT_SUPPORTED
		}
		return info, nvml.SUCCESS
	}
	g.GetGpuInstancePossiblePlacementsFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstancePlacement, nvml.Return) {
		return get(g, "nvmlDeviceGetGpuInstancePossiblePlacements", func() []nvml.GpuInstancePlacement {
			return placements[info.Id]
		})
	}
	g.GetGpuInstancesFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
		return get(g, "nvmlDeviceGetGpuInstances", func() (all []nvml.GpuInstance) {
			for _, gi := range g.created {
				if gi.info.ProfileId == info.Id {
					all = append(all, g.handle(gi))
				}
			}
			return all
		})
	}
	g.GetGpuInstanceByIdFunc = func(id int) (nvml.GpuInstance, nvml.Return) {
		gi, ret := get(g, "nvmlDeviceGetGpuInstanceById", func() *gpuInstance {
			for _, gi := range g.created {
				if int(gi.info.Id) == id {
					return gi
				}
			}
			return nil
		})
		if ret == nvml.SUCCESS && gi == nil {
			ret = nvml.ERROR_NOT_FOUND
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		return g.handle(gi), nvml.SUCCESS
	}
	g.CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo, at *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		gi, ret := get(g, "nvmlDeviceCreateGpuInstanceWithPlacement", func() *gpuInstance {
			gi := &gpuInstance{profile: *info, info: nvml.GpuInstanceInfo{ProfileId: info.Id, Placement: *at}}
			for _, other := range g.created {
				o := other.info.Placement
				if at.Start < o.Start+o.Size && o.Start < at.Start+at.Size {
					return nil
				}
				gi.info.Id = max(gi.info.Id, other.info.Id)
			}
			gi.info.Id++
			g.created = append(g.created, gi)
			return gi
		})
		if ret == nvml.SUCCESS && gi == nil {
			ret = nvml.ERROR_INSUFFICIENT_RESOURCES
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		return g.handle(gi), nvml.SUCCESS
	}
}

// handle returns NVML's handle of a GPU instance.
func (g *GPU) handle(gi *gpuInstance) *mock.GpuInstance {
	compute := nvml.ComputeInstanceProfileInfo{SliceCount: gi.profile.SliceCount, InstanceCount: 1}
	return &mock.GpuInstance{
		GetInfoFunc: func() (nvml.GpuInstanceInfo, nvml.Return) {
			return gi.info, g.l.enter(g.index, "nvmlGpuInstanceGetInfo")
		},
		GetComputeInstanceProfileInfoFunc: func(index, _ int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
			if index > 0 {
				return compute, nvml.ERROR_NOT_SUPPORTED
			}
			return compute, g.l.enter(g.index, "nvmlGpuInstanceGetComputeInstanceProfileInfo")
		},
		CreateComputeInstanceFunc: func(*nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
			_, ret := get(g, "nvmlGpuInstanceCreateComputeInstance", func() int {
				g.made++
				p := gi.profile
				gi.instance = &Instance{
					UUID: fmt.Sprintf("MIG-%08x-0000-5000-8000-%012x", g.index, g.made), Profile: fmt.Sprintf("%dg.%dgb", p.SliceCount, p.MemorySizeMB>>10),
					GPUInstance: int(gi.info.Id), Attributes: nvml.DeviceAttributes{
						MemorySizeMB: p.MemorySizeMB, GpuInstanceSliceCount: p.SliceCount, ComputeInstanceSliceCount: p.SliceCount, MultiprocessorCount: p.MultiprocessorCount,
					},
				}
				g.serveInstance(gi.instance)
				g.instances = append(g.instances, gi.instance)
				return 0
			})
			return &mock.ComputeInstance{}, ret
		},
		GetComputeInstancesFunc: func(*nvml.ComputeInstanceProfileInfo) (all []nvml.ComputeInstance, ret nvml.Return) {
			return get(g, "nvmlGpuInstanceGetComputeInstances", func() []nvml.ComputeInstance {
				if gi.instance == nil {
					return nil
				}
				return []nvml.ComputeInstance{&mock.ComputeInstance{DestroyFunc: func() nvml.Return {
					_, ret := get(g, "nvmlComputeInstanceDestroy", func() int {
						g.instances = slices.DeleteFunc(g.instances, func(i *Instance) bool { return i == gi.instance })
						gi.instance = nil
						return 0
					})
					return ret
				}}}
			})
		},
		DestroyFunc: func() nvml.Return {
			inUse, ret := get(g, "nvmlGpuInstanceDestroy", func() bool {
				if gi.instance == nil {
					g.created = slices.DeleteFunc(g.created, func(other *gpuInstance) bool { return other == gi })
				}
				return gi.instance != nil
			})
			if inUse {
				return nvml.ERROR_IN_USE
			}
			return ret
		},
	}
}

// GPUInstances returns how many GPU instances were created and not destroyed.
func (g *GPU) GPUInstances() (n int) {
	g.set(func() { n = len(g.created) })
	return n
}

// Create creates a GPU instance with a compute instance, as an operator does.
func (g *GPU) Create(t testing.TB, profile int, start uint32) {
	t.Helper()
	info, ret := g.GetGpuInstanceProfileInfoFunc(profile)
	if ret == nvml.SUCCESS {
		at := nvml.GpuInstancePlacement{Start: start, Size: placements[info.Id][0].Size}
		var gi nvml.GpuInstance
		if gi, ret = g.CreateGpuInstanceWithPlacementFunc(&info, &at); ret == nvml.SUCCESS {
			_, ret = gi.CreateComputeInstance(nil)
		}
	}
	if ret != nvml.SUCCESS {
		t.Fatalf("create a GPU instance: NVML error %d", ret)
	}
}
