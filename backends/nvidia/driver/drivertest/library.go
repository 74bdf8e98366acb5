// Package drivertest is an NVML with simulated GPUs: go-nvml's mock servers, extended by
// what they lack (events, NVLink, MIG devices, conditions) and by
// faults.
package drivertest

import (
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// Models are GPU models of the mock servers, one of each generation.
var Models = map[string]gpus.Config{
	"A100 80GB":  gpus.A100_SXM4_80GB,
	"H100 80GB":  gpus.H100_SXM5_80GB,
	"B200 180GB": gpus.B200_SXM5_180GB,
}

// Whole stands for "all instances" in events.
const Whole uint32 = 0xFFFFFFFF

// Library is an NVML. Its methods may be called at any time.
type Library struct {
	*server.Server
	GPUs []*GPU

	mu       sync.Mutex
	lacking  map[string]bool
	answers  map[call]nvml.Return
	hanging  map[call]chan struct{}
	calls    map[string]int
	inits    int // how often it is initialised and not shut down
	unloaded bool
	plugged  int // number of GPUs that exist
	counted  int // number of GPUs when it was initialised
	sets     []*eventSet
	busy     int // calls in the library
}

// call is a function on a GPU; -1 or "" stand for any.
type call struct {
	gpu      int
	function string
}

// New returns a library with count GPUs of one model, connected by PCIe only. Their bus
// IDs begin at 00000000:10:00.0 in steps of 0x10.
func New(model string, count int) *Library {
	l := &Library{
		Server:  server.NewServerWithGPUs("570.124.06", "12.570.124.06", 12080, gpus.Multiple(count, Models[model])...),
		lacking: map[string]bool{},
		answers: map[call]nvml.Return{},
		hanging: map[call]chan struct{}{},
		calls:   map[string]int{},
	}
	l.plugged = count
	for i := range count {
		l.GPUs = append(l.GPUs, newGPU(l, i))
	}
	l.serve()
	return l
}

// Load is for driver.Options.
func (l *Library) Load(string) (nvml.Interface, error) { return l, nil }

// Lack makes the library lack functions. Calling one then panics, as it would
// end a real process.
func (l *Library) Lack(functions ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range functions {
		l.lacking[f] = true
	}
}

// Fail makes a function of a GPU fail, all functions if empty; nvml.SUCCESS clears
// that. GPU -1 is the system.
func (l *Library) Fail(gpu int, function string, ret nvml.Return) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ret == nvml.SUCCESS {
		delete(l.answers, call{gpu, function})
		return
	}
	l.answers[call{gpu, function}] = ret
}

// Lose lets a GPU fall off the bus.
func (l *Library) Lose(gpu int) { l.Fail(gpu, "", nvml.ERROR_GPU_IS_LOST) }

// Hang makes a function of a GPU, or all if empty, hang until the returned
// function is called.
func (l *Library) Hang(gpu int, function string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := make(chan struct{})
	l.hanging[call{gpu, function}] = until
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.hanging, call{gpu, function})
		close(until)
	})
}

// Unload unloads the kernel module. Reload loads it again.
func (l *Library) Unload() { l.load(false) }

// Reload loads the kernel module again; the library must be initialised again.
func (l *Library) Reload() { l.load(true) }

func (l *Library) load(there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unloaded = !there
	if !there {
		l.inits = 0
	}
}

// Plug makes only the first n of the GPUs exist; the library counts them at its next
// initialisation.
func (l *Library) Plug(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plugged = n
}

func (l *Library) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.counted, len(l.GPUs))
}

// Initialised returns how often the library is initialised and not shut down.
func (l *Library) Initialised() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inits
}

// Calls returns how often a function was called, on all GPUs together.
func (l *Library) Calls(function string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[function]
}

// Busy returns how many calls are in the library now.
func (l *Library) Busy() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// enter begins every call: it counts it, hangs if Hang was called for it, and returns
// the error that the call must fail with.
func (l *Library) enter(gpu int, function string) nvml.Return {
	l.mu.Lock()
	if l.lacking[function] {
		l.mu.Unlock()
		panic("symbol lookup error: undefined symbol: " + function) //nolint:forbidigo // so does a real process end
	}
	l.calls[function]++
	l.busy++
	keys := []call{{gpu, function}, {gpu, ""}}
	var until chan struct{}
	for _, k := range keys {
		if c := l.hanging[k]; c != nil {
			until = c
		}
	}
	l.mu.Unlock()
	if until != nil {
		<-until
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	if function != "nvmlInit_v2" && l.inits == 0 {
		return nvml.ERROR_UNINITIALIZED
	}
	for _, k := range keys {
		if ret, ok := l.answers[k]; ok {
			return ret
		}
	}
	return nvml.SUCCESS
}

// serve sets the functions of the library itself.
func (l *Library) serve() {
	l.LookupSymbolFunc = func(name string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.lacking[name] || !slices.Contains(functions, name) {
			return nvml.ERROR_FUNCTION_NOT_FOUND
		}
		return nil
	}
	l.InitFunc = func() nvml.Return {
		if ret := l.enter(-1, "nvmlInit_v2"); ret != nvml.SUCCESS {
			return ret
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.unloaded {
			return nvml.ERROR_DRIVER_NOT_LOADED
		}
		if l.inits++; l.inits == 1 {
			l.counted = l.plugged
		}
		return nvml.SUCCESS
	}
	l.ShutdownFunc = func() nvml.Return {
		if ret := l.enter(-1, "nvmlShutdown"); ret != nvml.SUCCESS {
			return ret
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inits--
		return nvml.SUCCESS
	}
	l.DeviceGetCountFunc = func() (int, nvml.Return) {
		return l.count(), l.enter(-1, "nvmlDeviceGetCount")
	}
	l.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index < 0 || index >= l.count() {
			return nil, nvml.ERROR_INVALID_ARGUMENT
		}
		if ret := l.enter(index, "nvmlDeviceGetHandleByIndex"); ret != nvml.SUCCESS {
			return nil, ret
		}
		return l.GPUs[index], nvml.SUCCESS
	}
	l.EventSetCreateFunc = l.createSet
}

// functions are those that the library has before Lack.
var functions = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex",
	"nvmlDeviceGetPciInfo", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetSerial",
	"nvmlDeviceGetArchitecture", "nvmlDeviceGetBrand", "nvmlDeviceGetAddressingMode", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetFieldValues",
	"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetRetiredPagesPendingStatus",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetAttributes",
	"nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstancePossiblePlacements", "nvmlDeviceGetGpuInstances", "nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo",
	"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceCreateComputeInstance",
	"nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetNvLinkRemotePciInfo",
	"nvmlDeviceGetTopologyCommonAncestor",
	"nvmlEventSetCreate", "nvmlEventSetWait", "nvmlEventSetFree", "nvmlDeviceGetSupportedEventTypes",
	"nvmlDeviceRegisterEvents",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo",
	"nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
}

// Functions returns the functions that the library has before Lack.
func Functions() []string { return slices.Clone(functions) }
