package nvml

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// What a GPU is.
func TestIdentity(t *testing.T) {
	double, lib := initialised(t, 3)
	update(t, double, func(s State) {
		s.GPU(1).Set("pci", "00010000:3B:00.0")
		s.GPU(2).Set("pci", "0000:3B:1F.0")
	})
	gpu := device(t, lib, 1)
	name, ret := gpu.GetName()
	same(t, "GetName", name, ret, "NVIDIA H100 80GB HBM3")
	uuid, ret := gpu.GetUUID()
	same(t, "GetUUID", uuid, ret, UUID(1))
	serial, ret := gpu.GetSerial()
	same(t, "GetSerial", serial, ret, "1650000001")
	minor, ret := gpu.GetMinorNumber()
	same(t, "GetMinorNumber", minor, ret, 1)
	index, ret := gpu.GetIndex()
	same(t, "GetIndex", index, ret, 1)
	brand, ret := gpu.GetBrand()
	same(t, "GetBrand", brand, ret, nvml.BRAND_NVIDIA)
	architecture, ret := gpu.GetArchitecture()
	same(t, "GetArchitecture", architecture, ret, nvml.DEVICE_ARCH_HOPPER)
	major, minor, ret := gpu.GetCudaComputeCapability()
	same(t, "GetCudaComputeCapability", [2]int{major, minor}, ret, [2]int{9, 0})
	pci, ret := gpu.GetPciInfo()
	same(t, "GetPciInfo", text(pci.BusId[:]), ret, "00010000:3B:00.0")
	same(t, "domain", pci.Domain, ret, 0x10000)
	same(t, "bus", pci.Bus, ret, 0x3B)
	same(t, "device ID", pci.PciDeviceId, ret, 0x233010de)
	pci, ret = device(t, lib, 2).GetPciInfo()
	same(t, "GetPciInfo, four digits", text(pci.BusId[:]), ret, "0000:3B:1F.0")
	same(t, "legacy", text(pci.BusIdLegacy[:]), ret, "0000:3B:1F.0")
	var ext nvml.PciInfoExt
	ext.Version = nvml.STRUCT_VERSION(ext, 1)
	ext, ret = gpu.GetPciInfoExt()
	if ret == nvml.SUCCESS { // go-nvml does not set the version
		same(t, "GetPciInfoExt", ext.SubClass, ret, 2)
	}

	byUUID, ret := lib.DeviceGetHandleByUUID(UUID(1))
	same(t, "DeviceGetHandleByUUID", byUUID, ret, gpu)
	_, ret = lib.DeviceGetHandleByUUID("GPU-none")
	want(t, "DeviceGetHandleByUUID of none", ret, nvml.ERROR_NOT_FOUND)
	for _, id := range []string{"00010000:3B:00.0", "10000:3b:00.0"} {
		byID, ret := lib.DeviceGetHandleByPciBusId(id)
		same(t, "DeviceGetHandleByPciBusId", byID, ret, gpu)
	}
	_, ret = lib.DeviceGetHandleByPciBusId("0000:77:00.0")
	want(t, "DeviceGetHandleByPciBusId of none", ret, nvml.ERROR_NOT_FOUND)
	_, ret = lib.DeviceGetHandleByIndex(3)
	want(t, "DeviceGetHandleByIndex of none", ret, nvml.ERROR_INVALID_ARGUMENT)
	affinity, ret := gpu.GetMemoryAffinity(1, nvml.AFFINITY_SCOPE_NODE)
	same(t, "GetMemoryAffinity", affinity[0], ret, 1)
}

func text(chars []int8) string {
	var text []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

// What changes while a GPU runs.
func TestReadings(t *testing.T) {
	double, lib := initialised(t, 1)
	update(t, double, func(s State) {
		s.GPU(0).Set("memory.used", 1<<30).Set("temperature", -3).Set("ecc.uncorrected.volatile", 2).
			Set("ecc.corrected.aggregate.device", 7).Set("remapped-rows.pending", 1).Set("recovery-action", 2).
			Set("field.160", "u64 18446744073709551615").Set("field.161", "double 0.5").Set("field.162", "error GPU_IS_LOST").
			Set("field.163.4", "i32 -9").Set("process.77", "memory 4096 gi 1 ci 0").Set("process.78", "graphics").
			Set("process.79", "memory 1").Set("clocks-event-reasons", "0x48")
	})
	gpu := device(t, lib, 0)
	memory, ret := gpu.GetMemoryInfo()
	same(t, "GetMemoryInfo", memory, ret, nvml.Memory{Total: 80 << 30, Free: 80<<30 - 1<<30 - 512<<20, Used: 1<<30 + 512<<20})
	second, ret := gpu.GetMemoryInfo_v2()
	same(t, "GetMemoryInfo_v2", second.Used, ret, 1<<30)
	same(t, "reserved", second.Reserved, ret, 512<<20)
	limit, ret := gpu.GetEnforcedPowerLimit()
	same(t, "GetEnforcedPowerLimit", limit, ret, 700_000)
	lowest, highest, ret := gpu.GetPowerManagementLimitConstraints()
	same(t, "GetPowerManagementLimitConstraints", [2]uint32{lowest, highest}, ret, [2]uint32{200_000, 700_000})
	usage, ret := gpu.GetPowerUsage()
	same(t, "GetPowerUsage", usage, ret, 70_000)
	energy, ret := gpu.GetTotalEnergyConsumption()
	same(t, "GetTotalEnergyConsumption", energy, ret, 1_000_000)
	temperature, ret := gpu.GetTemperature(nvml.TEMPERATURE_GPU)
	same(t, "GetTemperature", int32(temperature), ret, -3)
	versioned, ret := gpu.GetTemperatureV().V1()
	same(t, "GetTemperatureV", versioned.Temperature, ret, -3)
	clock, ret := gpu.GetClockInfo(nvml.CLOCK_MEM)
	same(t, "GetClockInfo", clock, ret, 2619)
	clock, ret = gpu.GetMaxClockInfo(nvml.CLOCK_SM)
	same(t, "GetMaxClockInfo", clock, ret, 1980)
	reasons, ret := gpu.GetCurrentClocksEventReasons()
	same(t, "GetCurrentClocksEventReasons", reasons, ret, 0x48)
	rates, ret := gpu.GetUtilizationRates()
	same(t, "GetUtilizationRates", rates, ret, nvml.Utilization{})
	replays, ret := gpu.GetPcieReplayCounter()
	same(t, "GetPcieReplayCounter", replays, ret, 0)
	ecc, ret := gpu.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	same(t, "GetTotalEccErrors", ecc, ret, 2)
	ecc, ret = gpu.GetMemoryErrorCounter(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC, nvml.MEMORY_LOCATION_DEVICE_MEMORY)
	same(t, "GetMemoryErrorCounter", ecc, ret, 7)
	_, _, pending, failed, ret := gpu.GetRemappedRows()
	same(t, "GetRemappedRows", [2]bool{pending, failed}, ret, [2]bool{true, false})
	repairs, ret := gpu.GetRepairStatus()
	same(t, "GetRepairStatus", repairs.BChannelRepairPending, ret, 0)
	unrepairable, ret := gpu.GetUnrepairableMemoryFlag_v1()
	same(t, "GetUnrepairableMemoryFlag_v1", unrepairable.BUnrepairableMemory, ret, 0)
	processes, ret := gpu.GetComputeRunningProcesses()
	same(t, "GetComputeRunningProcesses", len(processes), ret, 2)
	same(t, "process", processes[0], ret, nvml.ProcessInfo{Pid: 77, UsedGpuMemory: 4096, GpuInstanceId: 1})
	processes, ret = gpu.GetGraphicsRunningProcesses()
	same(t, "GetGraphicsRunningProcesses", len(processes), ret, 1)
	testFields(t, gpu)
}

func testFields(t *testing.T, gpu nvml.Device) {
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}, {FieldId: 160}, {FieldId: 161}, {FieldId: 162}, {FieldId: 163, ScopeId: 4}, {FieldId: 164},
		{FieldId: nvml.FI_DEV_ECC_DBE_VOL_TOTAL}, {FieldId: nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION}, {FieldId: nvml.FI_DEV_REMAPPED_PENDING},
		{FieldId: nvml.FI_DEV_PCIE_REPLAY_COUNTER}, {FieldId: nvml.FI_DEV_NVLINK_LINK_COUNT},
	}
	want(t, "GetFieldValues", gpu.GetFieldValues(fields), nvml.SUCCESS)
	for i, expected := range []struct {
		ret   nvml.Return
		kind  nvml.ValueType
		value [8]byte
	}{
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_INT, [8]byte{2}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, [8]byte{255, 255, 255, 255, 255, 255, 255, 255}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_DOUBLE, [8]byte{6: 0xe0, 7: 0x3f}},
		{nvml.ERROR_GPU_IS_LOST, 0, [8]byte{}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_SIGNED_INT, [8]byte{0xf7, 255, 255, 255}},
		{nvml.ERROR_NOT_SUPPORTED, 0, [8]byte{}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, [8]byte{2}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, [8]byte{0x40, 0x42, 0x0f}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_INT, [8]byte{1}},
		{nvml.SUCCESS, nvml.VALUE_TYPE_UNSIGNED_INT, [8]byte{}},
		{nvml.ERROR_NOT_SUPPORTED, 0, [8]byte{}},
	} {
		field := fields[i]
		if field.NvmlReturn != uint32(expected.ret) || field.ValueType != uint32(expected.kind) || field.Value != expected.value {
			t.Errorf("field %d: %+v, want %+v", field.FieldId, field, expected)
		}
	}
}

// What the file does not say is not supported; a number that is none, unknown.
func TestAbsent(t *testing.T) {
	double, lib := initialised(t, 1)
	gpu := device(t, lib, 0)
	update(t, double, func(s State) { s.GPU(0).Delete("serial", "temperature").Set("minor", "none") })
	_, ret := gpu.GetSerial()
	want(t, "GetSerial", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = gpu.GetTemperature(nvml.TEMPERATURE_GPU)
	want(t, "GetTemperature", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = gpu.GetMinorNumber()
	want(t, "GetMinorNumber", ret, nvml.ERROR_UNKNOWN)
	_, ret = gpu.GetNvLinkState(0)
	want(t, "GetNvLinkState", ret, nvml.ERROR_NOT_SUPPORTED)
}

// One GPU of many fails, as a whole or in one call.
func TestErrors(t *testing.T) {
	double, lib := initialised(t, 4)
	lost := device(t, lib, 2)
	update(t, double, func(s State) {
		s.GPU(1).Fail("nvmlDeviceGetHandleByIndex", "UNKNOWN")
		s.GPU(2).Fail(All, "GPU_IS_LOST").Fail("nvmlDeviceGetMinorNumber", "SUCCESS")
		s.GPU(3).Fail("nvmlDeviceGetMemoryInfo_v2", "NOT_SUPPORTED")
		s.AddMIG(2, 0, 1, 10240)
	})
	for index, expected := range []nvml.Return{nvml.SUCCESS, nvml.ERROR_UNKNOWN, nvml.ERROR_GPU_IS_LOST, nvml.SUCCESS} {
		_, ret := lib.DeviceGetHandleByIndex(index)
		want(t, "DeviceGetHandleByIndex", ret, expected)
	}
	_, ret := lost.GetUUID()
	want(t, "GetUUID of a lost GPU", ret, nvml.ERROR_GPU_IS_LOST)
	_, ret = lost.GetMinorNumber()
	want(t, "what it still answers", ret, nvml.SUCCESS)
	_, ret = lib.DeviceGetHandleByUUID(MIGUUID(2, 0))
	want(t, "MIG device of a lost GPU", ret, nvml.ERROR_GPU_IS_LOST)
	_, ret = device(t, lib, 3).GetMemoryInfo()
	want(t, "GetMemoryInfo", ret, nvml.SUCCESS)
	_, ret = device(t, lib, 3).GetMemoryInfo_v2()
	want(t, "GetMemoryInfo_v2", ret, nvml.ERROR_NOT_SUPPORTED)
	count, ret := lib.DeviceGetCount()
	same(t, "DeviceGetCount", count, ret, 4)
}

// GPUs come and go: at once, or seen by a new Init only.
func TestPlug(t *testing.T) {
	double, lib := initialised(t, 3)
	middle, last := device(t, lib, 1), device(t, lib, 2)
	update(t, double, func(s State) { s.GPU(1).Remove() })
	_, ret := middle.GetUUID()
	want(t, "GetUUID of what is gone", ret, nvml.ERROR_GPU_IS_LOST)
	count, ret := lib.DeviceGetCount()
	same(t, "DeviceGetCount", count, ret, 2)
	index, ret := last.GetIndex()
	same(t, "GetIndex", index, ret, 1)

	update(t, double, func(s State) { s.Driver().Set("enumeration", "init") })
	count, ret = lib.DeviceGetCount()
	same(t, "DeviceGetCount, as of Init", count, ret, 3)
	_, ret = lib.DeviceGetHandleByIndex(1)
	want(t, "what is gone", ret, nvml.ERROR_GPU_IS_LOST)
	want(t, "Shutdown", lib.Shutdown(), nvml.SUCCESS)
	want(t, "Init", lib.Init(), nvml.SUCCESS)
	count, ret = lib.DeviceGetCount()
	same(t, "DeviceGetCount after Init", count, ret, 2)
}

// NVLinks between GPUs and to switches.
func TestLinks(t *testing.T) {
	double, lib := initialised(t, 3)
	update(t, double, func(s State) {
		s.Mesh(2, 0, 1, 2)
		s.GPU(1).Link(0).Set("state", 0)
		s.GPU(0).Set("topology.2", "single").Set("topology.1", 40)
	})
	gpu, other, third := device(t, lib, 0), device(t, lib, 1), device(t, lib, 2)
	state, ret := gpu.GetNvLinkState(3)
	same(t, "GetNvLinkState", state, ret, nvml.FEATURE_ENABLED)
	state, ret = other.GetNvLinkState(0)
	same(t, "GetNvLinkState", state, ret, nvml.FEATURE_DISABLED)
	_, ret = gpu.GetNvLinkState(4)
	want(t, "GetNvLinkState beyond", ret, nvml.ERROR_INVALID_ARGUMENT)
	pci, ret := gpu.GetNvLinkRemotePciInfo(2)
	same(t, "GetNvLinkRemotePciInfo", text(pci.BusId[:]), ret, BusID(2))
	kind, ret := gpu.GetNvLinkRemoteDeviceType(0)
	same(t, "GetNvLinkRemoteDeviceType", kind, ret, nvml.NVLINK_DEVICE_TYPE_GPU)
	version, ret := gpu.GetNvLinkVersion(0)
	same(t, "GetNvLinkVersion", version, ret, 5)
	level, ret := gpu.GetTopologyCommonAncestor(third)
	same(t, "GetTopologyCommonAncestor", level, ret, nvml.TOPOLOGY_SINGLE)
	level, ret = gpu.GetTopologyCommonAncestor(other)
	same(t, "GetTopologyCommonAncestor", level, ret, nvml.TOPOLOGY_NODE)
	level, ret = other.GetTopologyCommonAncestor(gpu)
	same(t, "the other way", level, ret, nvml.TOPOLOGY_SYSTEM)

	update(t, double, func(s State) {
		s.Switched(18, 0, 1, 2)
		s.GPU(0).Set("fabric.state", 3).Set("fabric.clique", 5).Set("fabric.cluster", "0a0b")
	})
	state, ret = gpu.GetNvLinkState(17)
	same(t, "GetNvLinkState", state, ret, nvml.FEATURE_ENABLED)
	kind, ret = gpu.GetNvLinkRemoteDeviceType(17)
	same(t, "GetNvLinkRemoteDeviceType", kind, ret, nvml.NVLINK_DEVICE_TYPE_SWITCH)
	fabric, ret := gpu.GetGpuFabricInfo()
	same(t, "GetGpuFabricInfo", fabric, ret, nvml.GpuFabricInfo{ClusterUuid: [16]uint8{10, 11}, CliqueId: 5, State: 3})
	second, ret := gpu.GetGpuFabricInfoV().V2()
	same(t, "GetGpuFabricInfoV", second.CliqueId, ret, 5)
	_, ret = other.GetGpuFabricInfo()
	want(t, "GetGpuFabricInfo", ret, nvml.ERROR_NOT_SUPPORTED)
}

// MIG devices with holes between them, made and destroyed while NVML runs.
func TestMIG(t *testing.T) {
	double, lib := initialised(t, 2)
	gpu := device(t, lib, 0)
	current, pending, ret := gpu.GetMigMode()
	same(t, "GetMigMode", [2]int{current, pending}, ret, [2]int{0, 0})
	update(t, double, func(s State) {
		s.AddMIG(0, 0, 1, 10240)
		s.AddMIG(0, 3, 2, 20480)
		s.GPU(1).Set("mig.pending", 1)
	})
	current, pending, ret = gpu.GetMigMode()
	same(t, "GetMigMode", [2]int{current, pending}, ret, [2]int{1, 1})
	current, pending, ret = device(t, lib, 1).GetMigMode()
	same(t, "GetMigMode", [2]int{current, pending}, ret, [2]int{0, 1})
	most, ret := gpu.GetMaxMigDeviceCount()
	same(t, "GetMaxMigDeviceCount", most, ret, 7)
	_, ret = gpu.GetMigDeviceHandleByIndex(1)
	want(t, "a hole", ret, nvml.ERROR_NOT_FOUND)
	mig, ret := gpu.GetMigDeviceHandleByIndex(3)
	want(t, "GetMigDeviceHandleByIndex", ret, nvml.SUCCESS)
	uuid, ret := mig.GetUUID()
	same(t, "GetUUID", uuid, ret, MIGUUID(0, 3))
	is, ret := mig.IsMigDeviceHandle()
	same(t, "IsMigDeviceHandle", is, ret, true)
	index, ret := mig.GetIndex()
	same(t, "GetIndex", index, ret, 3)
	parent, ret := mig.GetDeviceHandleFromMigDeviceHandle()
	same(t, "GetDeviceHandleFromMigDeviceHandle", parent, ret, gpu)
	attributes, ret := mig.GetAttributes()
	same(t, "GetAttributes", attributes.MemorySizeMB, ret, 20480)
	same(t, "slices", attributes.GpuInstanceSliceCount, ret, 2)
	byUUID, ret := lib.DeviceGetHandleByUUID(MIGUUID(0, 3))
	same(t, "DeviceGetHandleByUUID", byUUID, ret, mig)
	memory, ret := mig.GetMemoryInfo()
	same(t, "GetMemoryInfo", memory.Total, ret, 20480<<20)
	testInstances(t, gpu, mig)

	update(t, double, func(s State) { s.GPU(0).MIG(3).Remove() })
	_, ret = mig.GetUUID()
	want(t, "GetUUID of what is destroyed", ret, nvml.ERROR_NOT_FOUND)
	_, ret = gpu.GetMigDeviceHandleByIndex(3)
	want(t, "GetMigDeviceHandleByIndex", ret, nvml.ERROR_NOT_FOUND)
	_, ret = gpu.GetGpuInstanceById(4)
	want(t, "GetGpuInstanceById", ret, nvml.ERROR_NOT_FOUND)
}

func testInstances(t *testing.T, gpu, mig nvml.Device) {
	gi, ret := mig.GetGpuInstanceId()
	same(t, "GetGpuInstanceId", gi, ret, 4)
	ci, ret := mig.GetComputeInstanceId()
	same(t, "GetComputeInstanceId", ci, ret, 0)
	instance, ret := gpu.GetGpuInstanceById(gi)
	want(t, "GetGpuInstanceById", ret, nvml.SUCCESS)
	info, ret := instance.GetInfo()
	same(t, "GetInfo", info.ProfileId, ret, 1)
	same(t, "its GPU", info.Device, ret, gpu)
	compute, ret := instance.GetComputeInstanceById(ci)
	want(t, "GetComputeInstanceById", ret, nvml.SUCCESS)
	computeInfo, ret := compute.GetInfo()
	same(t, "GetInfo", computeInfo.ProfileId, ret, 1)
	profile, ret := gpu.GetGpuInstanceProfileInfo(1)
	same(t, "GetGpuInstanceProfileInfo", profile.MemorySizeMB, ret, 20480)
	_, ret = gpu.GetGpuInstanceProfileInfo(2)
	want(t, "GetGpuInstanceProfileInfo of none", ret, nvml.ERROR_NOT_SUPPORTED)
	computeProfile, ret := instance.GetComputeInstanceProfileInfo(1, 0)
	same(t, "GetComputeInstanceProfileInfo", computeProfile.SliceCount, ret, 2)
	_, ret = instance.GetComputeInstanceById(1)
	want(t, "GetComputeInstanceById of none", ret, nvml.ERROR_NOT_FOUND)
}
