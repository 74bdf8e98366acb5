package nvml

import (
	"reflect"
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
	f.Cleanup(func() { _ = lib.Shutdown() })
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
		call(set, "Wait Free")
		want(t, "Shutdown", lib.Shutdown(), nvml.SUCCESS)
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
	call(lib, "SystemGetDriverVersion SystemGetNVMLVersion SystemGetCudaDriverVersion SystemGetProcessName")
	call(lib, "DeviceGetHandleByUUID DeviceGetHandleByPciBusId", "0:0:0.0")
	count, _ := lib.DeviceGetCount()
	for index := range min(count, 3) {
		gpu, ret := lib.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		walkDevice(gpu, set)
		for link := range 37 {
			call(gpu, `GetNvLinkState GetNvLinkVersion GetNvLinkRemotePciInfo GetNvLinkRemoteDeviceType
				GetNvLinkErrorCounter GetNvLinkCapability`, link)
		}
		call(gpu, "GetTopologyCommonAncestor GetP2PStatus", gpu)
		walkMIG(gpu, set)
	}
}

func walkDevice(gpu nvml.Device, set nvml.EventSet) {
	call(gpu, `GetName GetUUID GetSerial GetIndex GetMinorNumber GetPciInfo GetPciInfoExt GetBrand GetArchitecture
		GetCudaComputeCapability GetAddressingMode GetMemoryInfo GetMemoryInfo_v2 GetUtilizationRates
		GetPowerManagementLimitConstraints GetTemperature GetMarginTemperature GetTotalEccErrors GetSramEccErrorStatus
		GetRemappedRows GetRowRemapperHistogram GetComputeRunningProcesses GetGraphicsRunningProcesses
		GetMPSComputeRunningProcesses GetGpuFabricInfo`)
	call(gpu, "GetClockInfo GetMemoryErrorCounter", nvml.CLOCK_COUNT, nvml.MEMORY_LOCATION_COUNT)
	call(gpu, "GetFieldValues", []nvml.FieldValue{{FieldId: 1}, {FieldId: 2}, {FieldId: 230}})
	call(gpu, "RegisterEvents GetMemoryAffinity GetCpuAffinity", set, uint64(8), 3)
	call(gpu.GetGpuFabricInfoV(), "V2 V3")
	call(gpu.GetTemperatureV(), "V1")
}

func walkMIG(gpu nvml.Device, set nvml.EventSet) {
	call(gpu, "GetMigMode GetMaxMigDeviceCount GetGpuInstanceProfileInfo")
	for index := range 64 {
		mig, ret := gpu.GetMigDeviceHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		walkDevice(mig, set)
		call(mig, "GetAttributes GetDeviceHandleFromMigDeviceHandle")
		id, _ := mig.GetGpuInstanceId()
		if gi, ret := gpu.GetGpuInstanceById(id); ret == nvml.SUCCESS {
			call(gi, "GetInfo GetComputeInstanceProfileInfo")
			if ci, ret := gi.GetComputeInstanceById(0); ret == nvml.SUCCESS {
				call(ci, "GetInfo")
			}
		}
	}
}

// call calls methods, each with those of the arguments that have its
// parameters' types, and zeros.
func call(on any, methods string, arguments ...any) {
	for name := range strings.FieldsSeq(methods) {
		method := reflect.ValueOf(on).MethodByName(name)
		var in []reflect.Value
		for i := range method.Type().NumIn() {
			parameter := method.Type().In(i)
			value := reflect.Zero(parameter)
			for _, argument := range arguments {
				if reflect.TypeOf(argument).AssignableTo(parameter) {
					value = reflect.ValueOf(argument)
				}
			}
			in = append(in, value)
		}
		method.Call(in)
	}
}
