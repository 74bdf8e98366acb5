package driver

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxInstances bounds the number of MIG devices of a GPU.
const maxInstances = 64

// mig reads the MIG mode and, in that mode, the MIG devices.
func (r *reader) mig(device nvml.Device, g *GPU) {
	r.call("nvmlDeviceGetMigMode", func() nvml.Return {
		mode, pending, ret := device.GetMigMode()
		if ret == nvml.SUCCESS {
			g.MIGCapable = true
			g.MIGEnabled = mode == nvml.DEVICE_MIG_ENABLE
			g.MIGPending = pending == nvml.DEVICE_MIG_ENABLE
		}
		return ret
	})
	if !g.MIGEnabled {
		return
	}
	count := 0
	r.call("nvmlDeviceGetMaxMigDeviceCount", func() (ret nvml.Return) {
		count, ret = device.GetMaxMigDeviceCount()
		return ret
	})
	for i := range min(count, maxInstances) {
		if instance, ok := r.instance(device, i, g.MemoryBytes); ok {
			g.Instances = append(g.Instances, instance)
		}
	}
	if r.s.partitions {
		r.partitions(device, g)
	}
	slices.SortFunc(g.Instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance))
	})
}

// instance reads the MIG device at an index of a GPU, which may be empty. An error
// that ends the reading of the GPU is stored in r, any other in the instance.
func (r *reader) instance(gpu nvml.Device, place int, memory uint64) (Instance, bool) {
	var device nvml.Device
	if !r.call("nvmlDeviceGetMigDeviceHandleByIndex", func() (ret nvml.Return) {
		device, ret = gpu.GetMigDeviceHandleByIndex(place)
		if ret == nvml.ERROR_INVALID_ARGUMENT { // no MIG device at this index, with some drivers
			ret = nvml.ERROR_NOT_FOUND
		}
		return ret
	}) {
		return Instance{}, false
	}
	own := &reader{s: r.s}
	i := own.readInstance(device, memory)
	i.Placement = own.placement(gpu, i.GPUInstance)
	if own.end {
		r.fail(own.err)
	}
	if i.UUID == "" { // it was destroyed meanwhile, or has no UUID
		if own.err != nil {
			r.fail(fmt.Errorf("MIG device %d: %w", place, own.err))
		}
		return Instance{}, false
	}
	i.Index, i.Err = place, own.err
	return i, true
}

// placement returns where a GPU instance is.
func (r *reader) placement(gpu nvml.Device, id uint32) (at *Placement) {
	var handle nvml.GpuInstance
	if !r.call("nvmlDeviceGetGpuInstanceById", func() (ret nvml.Return) {
		handle, ret = gpu.GetGpuInstanceById(int(id))
		return unlessForbidden(ret)
	}) {
		return nil
	}
	r.call("nvmlGpuInstanceGetInfo", func() nvml.Return {
		info, ret := handle.GetInfo()
		if ret == nvml.SUCCESS {
			at = &Placement{info.Placement.Start, info.Placement.Size}
		}
		return unlessForbidden(ret)
	})
	return at
}

func (r *reader) readInstance(device nvml.Device, memory uint64) Instance {
	var i Instance
	r.call("nvmlDeviceGetUUID", func() (ret nvml.Return) {
		i.UUID, ret = device.GetUUID()
		return ret
	})
	// Without its instances a MIG device would be taken for that of the instances 0, whose nodes its container would get.
	r.must("nvmlDeviceGetGpuInstanceId", func() nvml.Return {
		id, ret := device.GetGpuInstanceId()
		i.GPUInstance = uint32(id)
		return ret
	})
	r.must("nvmlDeviceGetComputeInstanceId", func() nvml.Return {
		id, ret := device.GetComputeInstanceId()
		i.ComputeInstance = uint32(id)
		return ret
	})
	r.call("nvmlDeviceGetAttributes", func() nvml.Return {
		a, ret := device.GetAttributes()
		if ret != nvml.SUCCESS {
			return ret
		}
		i.MemoryBytes, i.EnginesKnown = a.MemorySizeMB<<20, true
		i.GPUSlices, i.ComputeSlices = a.GpuInstanceSliceCount, a.ComputeInstanceSliceCount
		i.Multiprocessors, i.CopyEngines = a.MultiprocessorCount, a.SharedCopyEngineCount
		i.Decoders, i.Encoders = a.SharedDecoderCount, a.SharedEncoderCount
		i.JPEGEngines, i.OFAEngines = a.SharedJpegCount, a.SharedOfaCount
		return ret
	})
	name := ""
	r.call("nvmlDeviceGetName", func() (ret nvml.Return) {
		name, ret = device.GetName()
		return ret
	})
	i.Profile = profile(name, i, memory)
	return i
}

// profile returns NVIDIA's name of a MIG device's profile. The driver has it in the
// device's name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"; only that distinguishes profiles of
// one size ("+me"). Otherwise profile builds the name as the driver does: slices, and
// memory in eighths of the GPU's.
func profile(name string, i Instance, gpuMemory uint64) string {
	if _, after, ok := strings.Cut(name, " MIG "); ok && after != "" && !strings.Contains(after, " ") {
		return after
	}
	if i.GPUSlices == 0 || gpuMemory == 0 {
		return ""
	}
	const gib = 1 << 30
	eighths := math.Ceil(float64(i.MemoryBytes) / float64(gpuMemory) * 8)
	size := math.Round(eighths / 8 * math.Ceil(float64(gpuMemory)/gib))
	if i.ComputeSlices != 0 && i.ComputeSlices != i.GPUSlices {
		return fmt.Sprintf("%dc.%dg.%.0fgb", i.ComputeSlices, i.GPUSlices, size)
	}
	return fmt.Sprintf("%dg.%.0fgb", i.GPUSlices, size)
}
