package nvml

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Whatever the file says, the library answers something and goes on.
func FuzzFile(f *testing.F) {
	state := NewState()
	for slot := range 2 {
		state.AddGPU(slot)
	}
	state.AddMIG(0, 2, 1, 10240)
	state.Mesh(2, 0, 1)
	state["event.1"] = "gpu 0 xid 79 gi 1 ci 0"
	state["gpu.0.process.7"] = "memory 1 gi 0"
	for _, seed := range []string{
		state.text(), "", "=", "gpu.0.uuid", "gpu.0.uuid = x\ngpu.0.pci = 0:0:0\ngpu.0.links = 99999999999\n",
		"gpu.0.uuid=" + strings.Repeat("x", 10000), strings.Repeat("gpu.0.uuid = a\n", 1000),
		"gpu.63.uuid = a\ngpu.63.mig.63.uuid = b\ngpu.64.uuid = c\ngpu.-1.uuid = d\nerror.* = 99999\nevent.x = gpu",
		"gpu.0.uuid = a\ngpu.0.hang.* = nan\nhang.* = -1s\ngpu.0.field.1 = double\ngpu.0.field.2 = u64 x\ngpu.0.process.1 = memory",
		"# a = b\r\n\x00 = \x00\ngpu.0.uuid = \xff\ngpu.0.mig.1.uuid=m\ngpu.0.mig.1.gi=99\ngpu.0.fabric.state=1\ngpu.0.fabric.cluster=0",
	} {
		f.Add(seed)
	}
	double, lib := start(f, 0)
	want(f, "Init", lib.Init(), nvml.SUCCESS)
	defer lib.Shutdown()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "hang.") && strings.Contains(text, "=") {
			// It may well be for a day.
			text = strings.ReplaceAll(text, "hang.", "hung.")
		}
		if err := double.write(text); err != nil {
			t.Fatal(err)
		}
		set, _ := lib.EventSetCreate()
		walk(lib, set)
		if err := double.write(text + "\nevent.99 = gpu 0 xid 1\n"); err != nil {
			t.Fatal(err)
		}
		set.Wait(0)
		set.Free()
		lib.Shutdown()
		if lib.Init() != nvml.SUCCESS { // the file may say so
			if err := double.write(""); err != nil {
				t.Fatal(err)
			}
			want(t, "Init", lib.Init(), nvml.SUCCESS)
		}
	})
}

// walk calls all that there is to be called, whatever comes of it.
func walk(lib nvml.Interface, set nvml.EventSet) {
	lib.SystemGetDriverVersion()
	lib.SystemGetNVMLVersion()
	lib.SystemGetCudaDriverVersion()
	lib.SystemGetProcessName(7)
	lib.DeviceGetHandleByUUID("a")
	lib.DeviceGetHandleByPciBusId("0:0:0.0")
	count, _ := lib.DeviceGetCount()
	for index := range min(count, 3) {
		gpu, ret := lib.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		walkDevice(gpu, set)
		walkLinks(gpu)
		walkMIG(gpu, set)
	}
}

func walkDevice(gpu nvml.Device, set nvml.EventSet) {
	gpu.GetName()
	gpu.GetUUID()
	gpu.GetSerial()
	gpu.GetIndex()
	gpu.GetMinorNumber()
	gpu.GetPciInfo()
	gpu.GetPciInfoExt()
	gpu.GetBrand()
	gpu.GetArchitecture()
	gpu.GetCudaComputeCapability()
	gpu.GetAddressingMode()
	gpu.GetMemoryInfo()
	gpu.GetMemoryInfo_v2()
	gpu.GetUtilizationRates()
	gpu.GetPowerManagementLimitConstraints()
	gpu.GetTemperature(nvml.TEMPERATURE_GPU)
	gpu.GetTemperatureV().V1()
	gpu.GetMarginTemperature()
	gpu.GetClockInfo(9)
	gpu.GetTotalEccErrors(9, 9)
	gpu.GetMemoryErrorCounter(0, 0, 9)
	gpu.GetSramEccErrorStatus()
	gpu.GetRemappedRows()
	gpu.GetRowRemapperHistogram()
	gpu.GetFieldValues([]nvml.FieldValue{{FieldId: 1}, {FieldId: 2}, {FieldId: 230}})
	gpu.GetComputeRunningProcesses()
	gpu.GetGraphicsRunningProcesses()
	gpu.GetMPSComputeRunningProcesses()
	gpu.RegisterEvents(8, set)
	gpu.GetMemoryAffinity(3, nvml.AFFINITY_SCOPE_NODE)
	gpu.GetCpuAffinity(3)
}

func walkLinks(gpu nvml.Device) {
	for link := range 37 {
		gpu.GetNvLinkState(link)
		gpu.GetNvLinkVersion(link)
		gpu.GetNvLinkRemotePciInfo(link)
		gpu.GetNvLinkRemoteDeviceType(link)
		gpu.GetNvLinkErrorCounter(link, 0)
		gpu.GetNvLinkCapability(link, 0)
	}
	gpu.GetTopologyCommonAncestor(gpu)
	gpu.GetP2PStatus(gpu, 0)
	gpu.GetGpuFabricInfo()
	gpu.GetGpuFabricInfoV().V2()
	gpu.GetGpuFabricInfoV().V3()
}

func walkMIG(gpu nvml.Device, set nvml.EventSet) {
	gpu.GetMigMode()
	gpu.GetMaxMigDeviceCount()
	gpu.GetGpuInstanceProfileInfo(0)
	for index := range 64 {
		mig, ret := gpu.GetMigDeviceHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		walkDevice(mig, set)
		mig.GetAttributes()
		mig.GetDeviceHandleFromMigDeviceHandle()
		id, _ := mig.GetGpuInstanceId()
		if gi, ret := gpu.GetGpuInstanceById(id); ret == nvml.SUCCESS {
			gi.GetInfo()
			gi.GetComputeInstanceProfileInfo(0, 0)
			if ci, ret := gi.GetComputeInstanceById(0); ret == nvml.SUCCESS {
				ci.GetInfo()
			}
		}
	}
}
