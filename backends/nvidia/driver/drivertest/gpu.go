package drivertest

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// GPU is one GPU of a library.
type GPU struct {
	*server.Device
	l     *Library
	index int

	mu        sync.Mutex
	fields    map[uint32]uint64
	ecc       uint64
	pending   bool // rows to be remapped
	failed    bool // rows that could not be remapped
	mig       bool
	instances []*Instance
	// created are the GPU instances that were created by NVML, made counts their compute instances.
	created   []*gpuInstance
	made      int
	links     []link
	fabric    nvml.GpuFabricInfo
	processes []nvml.ProcessInfo
}

// Instance is a MIG device. Functions for fields that are zero are not supported.
type Instance struct {
	UUID, Profile                string
	GPUInstance, ComputeInstance int
	Attributes                   nvml.DeviceAttributes
	mock                         *mock.Device
}

// link is one NVLink that is up.
type link struct {
	kind  nvml.IntNvLinkDeviceType
	busID string
}

func newGPU(l *Library, index int) *GPU {
	g := &GPU{
		Device: l.Devices[index].(*server.Device),
		l:      l, index: index,
		fields: map[uint32]uint64{},
	}
	g.serveIdentity()
	g.serveCondition()
	g.serveMIG()
	g.servePartitions()
	g.serveLinks()
	g.serveEvents()
	g.serveTelemetry()
	return g
}

// busID is the PCI bus ID, as NVML writes it.
func (g *GPU) busID() string { return fmt.Sprintf("00000000:%02X:00.0", 0x10*(g.index+1)) }

// SetField sets a field value; it is an unsigned long long.
func (g *GPU) SetField(id uint32, value uint64) { g.set(func() { g.fields[id] = value }) }

// SetECC sets the count of uncorrectable errors.
func (g *GPU) SetECC(n uint64) { g.set(func() { g.ecc = n }) }

// SetRemapped sets what the row remapper reports.
func (g *GPU) SetRemapped(pending, failed bool) {
	g.set(func() { g.pending, g.failed = pending, failed })
}

// SetFabric sets what the GPU reports about its fabric.
func (g *GPU) SetFabric(info nvml.GpuFabricInfo) { g.set(func() { g.fabric = info }) }

// SetProcesses sets the processes that compute on the GPU.
func (g *GPU) SetProcesses(all ...nvml.ProcessInfo) { g.set(func() { g.processes = all }) }

// SetMemoryUsed sets how much of the memory is in use, in bytes.
func (g *GPU) SetMemoryUsed(n uint64) { g.set(func() { g.MemoryInfo.Used = n }) }

// SetMIG switches MIG mode on or off, with the given MIG devices; nil is an empty
// index.
func (g *GPU) SetMIG(on bool, instances ...*Instance) {
	for _, i := range instances {
		if i != nil {
			g.serveInstance(i)
		}
	}
	g.set(func() { g.mig, g.instances = on, instances })
}

func (g *GPU) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// get calls f, unless the function is to fail.
func get[T any](g *GPU, function string, f func() T) (T, nvml.Return) {
	if ret := g.l.enter(g.index, function); ret != nvml.SUCCESS {
		var none T
		return none, ret
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(), nvml.SUCCESS
}

// serve returns a function of the GPU that answers what f does.
func serve[T any](g *GPU, function string, f func() T) func() (T, nvml.Return) {
	return func() (T, nvml.Return) { return get(g, function, f) }
}

func (g *GPU) serveIdentity() {
	g.GetPciInfoFunc = serve(g, "nvmlDeviceGetPciInfo", func() nvml.PciInfo { return pciInfo(g.busID()) })
	g.GetUUIDFunc = serve(g, "nvmlDeviceGetUUID", func() string { return g.UUID })
	g.GetNameFunc = serve(g, "nvmlDeviceGetName", func() string { return g.Config.Name })
	g.GetMinorNumberFunc = serve(g, "nvmlDeviceGetMinorNumber", func() int { return g.Minor })
	g.GetSerialFunc = serve(g, "nvmlDeviceGetSerial", func() string { return fmt.Sprintf("165%d", g.index) })
	g.GetArchitectureFunc = serve(g, "nvmlDeviceGetArchitecture", func() nvml.DeviceArchitecture { return g.Config.Architecture })
	g.GetBrandFunc = serve(g, "nvmlDeviceGetBrand", func() nvml.BrandType { return g.Config.Brand })
	g.GetAddressingModeFunc = serve(g, "nvmlDeviceGetAddressingMode", func() nvml.DeviceAddressingMode {
		return nvml.DeviceAddressingMode{Value: uint32(nvml.DEVICE_ADDRESSING_MODE_HMM)}
	})
	g.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) {
		_, ret := get(g, "nvmlDeviceGetCudaComputeCapability", func() int { return 0 })
		return g.Config.CudaMajor, g.Config.CudaMinor, ret
	}
	g.GetMemoryInfoFunc = serve(g, "nvmlDeviceGetMemoryInfo", func() nvml.Memory { return g.MemoryInfo })
	g.GetPowerManagementLimitFunc = serve(g, "nvmlDeviceGetPowerManagementLimit", func() uint32 { return 700_000 })
	g.GetGpuFabricInfoFunc = serve(g, "nvmlDeviceGetGpuFabricInfo", func() nvml.GpuFabricInfo { return g.fabric })
}

func pciInfo(id string) nvml.PciInfo {
	var info nvml.PciInfo
	for i := range min(len(id), len(info.BusId)-1) {
		info.BusId[i] = int8(id[i])
	}
	return info
}

func (g *GPU) serveCondition() {
	g.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		_, ret := get(g, "nvmlDeviceGetFieldValues", func() int {
			for i := range values {
				v, ok := g.fields[values[i].FieldId]
				values[i].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
				binary.NativeEndian.PutUint64(values[i].Value[:], v)
				if !ok {
					values[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
				}
			}
			return 0
		})
		return ret
	}
	g.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		return get(g, "nvmlDeviceGetTotalEccErrors", func() uint64 { return g.ecc })
	}
	g.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) {
		rows, ret := get(g, "nvmlDeviceGetRemappedRows", func() [2]bool { return [2]bool{g.pending, g.failed} })
		return 0, 0, rows[0], rows[1], ret
	}
	g.GetRetiredPagesPendingStatusFunc = func() (nvml.EnableState, nvml.Return) {
		_, ret := get(g, "nvmlDeviceGetRetiredPagesPendingStatus", func() int { return 0 })
		if ret == nvml.SUCCESS {
			ret = nvml.ERROR_NOT_SUPPORTED // as from Ampere on
		}
		return nvml.FEATURE_DISABLED, ret
	}
}

func (g *GPU) serveMIG() {
	g.GetMigModeFunc = func() (int, int, nvml.Return) {
		on, ret := get(g, "nvmlDeviceGetMigMode", func() bool { return g.mig })
		if on {
			return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, ret
		}
		return nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_DISABLE, ret
	}
	g.GetMaxMigDeviceCountFunc = serve(g, "nvmlDeviceGetMaxMigDeviceCount", func() int { return 7 })
	g.GetMigDeviceHandleByIndexFunc = func(place int) (nvml.Device, nvml.Return) {
		i, ret := get(g, "nvmlDeviceGetMigDeviceHandleByIndex", func() *Instance {
			if place < len(g.instances) {
				return g.instances[place]
			}
			return nil
		})
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		if i == nil {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return i.mock, nvml.SUCCESS
	}
}

func (g *GPU) serveInstance(i *Instance) {
	i.mock = &mock.Device{
		GetUUIDFunc:              serve(g, "nvmlDeviceGetUUID", func() string { return i.UUID }),
		GetNameFunc:              serve(g, "nvmlDeviceGetName", func() string { return g.Config.Name + " MIG " + i.Profile }),
		GetGpuInstanceIdFunc:     serve(g, "nvmlDeviceGetGpuInstanceId", func() int { return i.GPUInstance }),
		GetComputeInstanceIdFunc: serve(g, "nvmlDeviceGetComputeInstanceId", func() int { return i.ComputeInstance }),
		GetAttributesFunc:        serve(g, "nvmlDeviceGetAttributes", func() nvml.DeviceAttributes { return i.Attributes }),
		GetMemoryInfoFunc:        serve(g, "nvmlDeviceGetMemoryInfo", func() nvml.Memory { return nvml.Memory{Total: i.Attributes.MemorySizeMB << 20} }),
	}
}

func (g *GPU) serveTelemetry() {
	g.GetUtilizationRatesFunc = serve(g, "nvmlDeviceGetUtilizationRates", func() nvml.Utilization { return nvml.Utilization{Gpu: 50, Memory: 25} })
	g.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) {
		return get(g, "nvmlDeviceGetTemperature", func() uint32 { return 45 })
	}
	g.GetPowerUsageFunc = serve(g, "nvmlDeviceGetPowerUsage", func() uint32 { return 123_456 })
	g.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) {
		return get(g, "nvmlDeviceGetClockInfo", func() uint32 { return 1980 })
	}
	g.GetCurrentClocksEventReasonsFunc = serve(g, "nvmlDeviceGetCurrentClocksEventReasons", func() uint64 { return nvml.ClocksEventReasonSwPowerCap })
	g.GetComputeRunningProcessesFunc = serve(g, "nvmlDeviceGetComputeRunningProcesses", func() []nvml.ProcessInfo { return g.processes })
	g.GetGraphicsRunningProcessesFunc = serve(g, "nvmlDeviceGetGraphicsRunningProcesses", func() []nvml.ProcessInfo { return nil })
}
