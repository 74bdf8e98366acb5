package driver

import (
	"bytes"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/pci"
)

// architectures are the names of NVML's architectures, as NVIDIA's DRA driver and nvidia-smi write them.
var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER:    "Kepler",
	nvml.DEVICE_ARCH_MAXWELL:   "Maxwell",
	nvml.DEVICE_ARCH_PASCAL:    "Pascal",
	nvml.DEVICE_ARCH_VOLTA:     "Volta",
	nvml.DEVICE_ARCH_TURING:    "Turing",
	nvml.DEVICE_ARCH_AMPERE:    "Ampere",
	nvml.DEVICE_ARCH_ADA:       "Ada Lovelace",
	nvml.DEVICE_ARCH_HOPPER:    "Hopper",
	nvml.DEVICE_ARCH_BLACKWELL: "Blackwell",
	nvml.DEVICE_ARCH_RUBIN:     "Rubin",
}

// brands are the names of NVML's brands, as NVIDIA's DRA driver writes them (GetBrandAsString of go-nvlib 0.12).
var brands = map[nvml.BrandType]string{
	nvml.BRAND_UNKNOWN: "Unknown", nvml.BRAND_QUADRO: "Quadro", nvml.BRAND_TESLA: "Tesla", nvml.BRAND_NVS: "NVS", nvml.BRAND_GRID: "Grid",
	nvml.BRAND_GEFORCE: "GeForce", nvml.BRAND_TITAN: "Titan", nvml.BRAND_NVIDIA_VAPPS: "NvidiaVApps", nvml.BRAND_NVIDIA_VPC: "NvidiaVPC",
	nvml.BRAND_NVIDIA_VCS: "NvidiaVCS", nvml.BRAND_NVIDIA_VWS: "NvidiaVWS", nvml.BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
	nvml.BRAND_QUADRO_RTX: "QuadroRTX", nvml.BRAND_NVIDIA_RTX: "NvidiaRTX", nvml.BRAND_NVIDIA: "Nvidia", nvml.BRAND_GEFORCE_RTX: "GeForceRTX",
	nvml.BRAND_TITAN_RTX: "TitanRTX",
}

// addressingModes are the names of NVML's addressing modes, from the same library.
var addressingModes = map[nvml.DeviceAddressingModeType]string{
	nvml.DEVICE_ADDRESSING_MODE_NONE: "None", nvml.DEVICE_ADDRESSING_MODE_HMM: "HMM", nvml.DEVICE_ADDRESSING_MODE_ATS: "ATS",
}

// readGPU reads one GPU. It runs in the GPU's lane.
func (s *session) readGPU(index int) GPU {
	r := &reader{s: s}
	g := GPU{Index: index, Minor: -1}
	if device, ok := r.handle(index); ok {
		r.identity(device, &g)
		r.attributes(device, &g)
		g.Condition = r.condition(device)
		r.mig(device, &g)
	}
	g.Err = r.err
	return g
}

func (r *reader) identity(device nvml.Device, g *GPU) {
	r.call("nvmlDeviceGetPciInfo", func() nvml.Return {
		info, ret := device.GetPciInfo()
		if ret == nvml.SUCCESS {
			g.PCIBusID = busID(info)
		}
		return ret
	})
	if !r.call("nvmlDeviceGetUUID", func() (ret nvml.Return) {
		g.UUID, ret = device.GetUUID()
		return ret
	}) && r.err == nil || r.err == nil && g.UUID == "" {
		r.fail(fmt.Errorf("nvmlDeviceGetUUID: %w: the GPU has no UUID", ErrFailed))
	}
	r.call("nvmlDeviceGetName", func() (ret nvml.Return) {
		g.Name, ret = device.GetName()
		return ret
	})
	r.call("nvmlDeviceGetMinorNumber", func() nvml.Return {
		minor, ret := device.GetMinorNumber()
		if ret == nvml.SUCCESS && minor >= 0 {
			g.Minor = minor
		}
		return ret
	})
	r.call("nvmlDeviceGetSerial", func() nvml.Return {
		serial, ret := device.GetSerial()
		if ret == nvml.SUCCESS && serial != "0" { // "0": the board has none
			g.Serial = serial
		}
		return ret
	})
}

func (r *reader) attributes(device nvml.Device, g *GPU) {
	r.call("nvmlDeviceGetArchitecture", func() nvml.Return {
		architecture, ret := device.GetArchitecture()
		g.Architecture = architectures[architecture]
		return ret
	})
	r.call("nvmlDeviceGetBrand", func() nvml.Return {
		brand, ret := device.GetBrand()
		if ret == nvml.SUCCESS {
			g.Brand = brands[brand]
		}
		return ret
	})
	r.call("nvmlDeviceGetAddressingMode", func() nvml.Return {
		mode, ret := device.GetAddressingMode()
		if ret == nvml.SUCCESS {
			g.AddressingMode = addressingModes[nvml.DeviceAddressingModeType(mode.Value)]
		}
		return ret
	})
	r.call("nvmlDeviceGetCudaComputeCapability", func() nvml.Return {
		major, minor, ret := device.GetCudaComputeCapability()
		if ret == nvml.SUCCESS {
			g.ComputeMajor, g.ComputeMinor = major, minor
		}
		return ret
	})
	r.call("nvmlDeviceGetMemoryInfo", func() nvml.Return {
		memory, ret := device.GetMemoryInfo()
		if ret == nvml.SUCCESS {
			g.MemoryBytes = memory.Total
		}
		return ret
	})
	r.call("nvmlDeviceGetPowerManagementLimit", func() nvml.Return {
		milliwatts, ret := device.GetPowerManagementLimit()
		if ret == nvml.SUCCESS {
			g.PowerLimitWatts = milliwatts / 1000
		}
		return ret
	})
	r.call("nvmlDeviceGetGpuFabricInfo", func() nvml.Return {
		info, ret := device.GetGpuFabricInfo()
		if ret == nvml.SUCCESS {
			g.Fabric = fabric(info)
		}
		return ret
	})
}

func fabric(info nvml.GpuFabricInfo) *Fabric {
	f := &Fabric{Clique: info.CliqueId}
	switch info.State {
	case nvml.GPU_FABRIC_STATE_NOT_STARTED:
		f.State = "not-started"
	case nvml.GPU_FABRIC_STATE_IN_PROGRESS:
		f.State = "in-progress"
	case nvml.GPU_FABRIC_STATE_COMPLETED:
		f.State = "completed"
		f.Err = failure("nvmlDeviceGetGpuFabricInfo", nvml.Return(info.Status))
	default:
		return nil
	}
	if u := info.ClusterUuid; u != [16]uint8{} {
		f.ClusterUUID = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	}
	return f
}

// busID returns the PCI bus ID as sysfs writes it; empty if the driver reports no valid
// one. Old drivers have only the legacy form with four digits of domain.
func busID(info nvml.PciInfo) string {
	for _, text := range []string{chars(info.BusId[:]), chars(info.BusIdLegacy[:])} {
		if at, err := pci.ParseAddress(text); err == nil {
			return at.String()
		}
	}
	return ""
}

// chars returns the text of a C string.
func chars(c []int8) string {
	b := make([]byte, len(c))
	for i, v := range c {
		b[i] = byte(v)
	}
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

func (r *reader) condition(device nvml.Device) Condition {
	var c Condition
	if v, ok := r.fields(device, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION)[nvml.FI_DEV_GET_GPU_RECOVERY_ACTION]; ok {
		c.Recovery = new(RecoveryAction(v))
	}
	r.call("nvmlDeviceGetTotalEccErrors", func() nvml.Return {
		n, ret := device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		if ret == nvml.SUCCESS {
			c.ECCUncorrected = &n
		}
		return ret
	})
	r.call("nvmlDeviceGetRemappedRows", func() nvml.Return {
		_, _, pending, failed, ret := device.GetRemappedRows()
		if ret == nvml.SUCCESS {
			c.RemapPending, c.RemapFailed = &pending, &failed
		}
		return ret
	})
	r.call("nvmlDeviceGetRetiredPagesPendingStatus", func() nvml.Return {
		pending, ret := device.GetRetiredPagesPendingStatus()
		if ret == nvml.SUCCESS {
			c.RetiredPending = new(pending == nvml.FEATURE_ENABLED)
		}
		return ret
	})
	r.call("nvmlDeviceGetRepairStatus", func() nvml.Return {
		status, ret := device.GetRepairStatus()
		if ret == nvml.SUCCESS {
			c.RepairPending = new(status.BChannelRepairPending != 0 || status.BTpcRepairPending != 0)
		}
		return ret
	})
	r.call("nvmlDeviceGetUnrepairableMemoryFlag_v1", func() nvml.Return {
		status, ret := device.GetUnrepairableMemoryFlag_v1()
		if ret == nvml.SUCCESS {
			c.Unrepairable = new(status.BUnrepairableMemory != 0)
		}
		return ret
	})
	r.call("nvmlDeviceGetSramEccErrorStatus", func() nvml.Return {
		status, ret := device.GetSramEccErrorStatus()
		if ret == nvml.SUCCESS {
			c.SRAMExceeded = new(status.BThresholdExceeded != 0)
		}
		return unlessForbidden(ret)
	})
	r.call("nvmlDeviceGetGpuFabricInfoV", func() nvml.Return {
		info, ret := device.GetGpuFabricInfoV().V3()
		if ret == nvml.SUCCESS && info.HealthSummary != nvml.GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED {
			c.FabricUnhealthy = new(info.HealthSummary == nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY)
			c.FabricLimited = new(info.HealthSummary == nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY)
		}
		return ret
	})
	c.Overheated = r.overheated(device)
	return c
}

// overheated reports whether the hardware slows the GPU down because of heat, according to
// NVML or by its temperature; nil if neither is known.
func (r *reader) overheated(device nvml.Device) *bool {
	var hot *bool
	function, reasons := clockReasons(r.s, device)
	r.call(function, func() nvml.Return {
		mask, ret := reasons()
		if ret == nvml.SUCCESS {
			hot = new(mask&nvml.ClocksThrottleReasonHwThermalSlowdown != 0)
		}
		return ret
	})
	var limit, celsius uint32
	known := r.call("nvmlDeviceGetTemperatureThreshold", func() (ret nvml.Return) {
		limit, ret = device.GetTemperatureThreshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
		return ret
	}) && r.call("nvmlDeviceGetTemperature", func() (ret nvml.Return) {
		celsius, ret = device.GetTemperature(nvml.TEMPERATURE_GPU)
		return ret
	})
	if known && limit > 0 && celsius >= limit {
		return new(true)
	}
	return hot
}

// unlessForbidden treats a call that only root may make as not supported.
func unlessForbidden(ret nvml.Return) nvml.Return {
	if ret == nvml.ERROR_NO_PERMISSION {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return ret
}

// fields reads several field values with one call. The map lacks those that the
// GPU does not have.
func (r *reader) fields(device nvml.Device, ids ...uint32) map[uint32]float64 {
	read := make([]nvml.FieldValue, len(ids))
	for i, id := range ids {
		read[i].FieldId = id
	}
	return r.sums(device, read)
}

// sums is fields, with the values of one field in several scopes added up.
func (r *reader) sums(device nvml.Device, read []nvml.FieldValue) map[uint32]float64 {
	if !r.call("nvmlDeviceGetFieldValues", func() nvml.Return { return device.GetFieldValues(read) }) {
		return nil
	}
	values := make(map[uint32]float64, len(read))
	for _, v := range read {
		ret := nvml.Return(v.NvmlReturn)
		if n, ok := number(v); ok && ret == nvml.SUCCESS {
			values[v.FieldId] += n
		} else if err := failure("nvmlDeviceGetFieldValues", ret); err != nil && fatal(err) {
			r.fail(err)
		}
	}
	return values
}
