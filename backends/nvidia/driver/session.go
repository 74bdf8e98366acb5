package driver

import (
	"cmp"
	"fmt"
	"maps"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxGPUs bounds the number of GPUs that a library may report.
const maxGPUs = 256

// session is the driver between Open and Close.
type session struct {
	lib    nvml.Interface
	module []byte // the kernel module, from procfs
	// partitions is the option Partitions.
	partitions bool
	symbols    sync.Map

	driverVersion, cudaVersion string

	mu    sync.Mutex
	known map[int]GPU // what was last read of each GPU with a UUID, by index
	links linkCache
}

// newer are the functions that go-nvml replaces by newer versions if the library has
// them.
var newer = map[string][]string{
	"nvmlDeviceGetPciInfo":                  {"_v2", "_v3"},
	"nvmlDeviceGetCount":                    {"_v2"},
	"nvmlDeviceGetHandleByIndex":            {"_v2"},
	"nvmlDeviceGetNvLinkRemotePciInfo":      {"_v2"},
	"nvmlEventSetWait":                      {"_v2"},
	"nvmlDeviceGetAttributes":               {"_v2"},
	"nvmlDeviceGetComputeRunningProcesses":  {"_v2", "_v3"},
	"nvmlDeviceGetGraphicsRunningProcesses": {"_v2", "_v3"},

	"nvmlDeviceGetGpuInstancePossiblePlacements": {"_v2"},
}

// has reports whether the library has a function. Calling one that it lacks ends
// the process.
func (s *session) has(function string) bool {
	if known, ok := s.symbols.Load(function); ok {
		return known.(bool)
	}
	found := s.lib.Extensions().LookupSymbol(function) == nil
	for _, version := range newer[function] {
		found = found || s.lib.Extensions().LookupSymbol(function+version) == nil
	}
	s.symbols.Store(function, found)
	return found
}

// readVersions reads the versions of driver and CUDA. It runs in the system lane.
func (s *session) readVersions() error {
	r := reader{s: s}
	r.call("nvmlSystemGetDriverVersion", func() (ret nvml.Return) {
		s.driverVersion, ret = s.lib.SystemGetDriverVersion()
		return ret
	})
	r.call("nvmlSystemGetCudaDriverVersion", func() nvml.Return {
		v, ret := s.lib.SystemGetCudaDriverVersion()
		if ret == nvml.SUCCESS && v > 0 {
			s.cudaVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
		return ret
	})
	return r.err
}

// count returns the number of GPUs. It runs in the system lane.
func (s *session) count() (int, error) {
	r := reader{s: s}
	n := 0
	r.call("nvmlDeviceGetCount", func() (ret nvml.Return) {
		n, ret = s.lib.DeviceGetCount()
		return ret
	})
	if n < 0 || n > maxGPUs {
		return 0, fmt.Errorf("nvmlDeviceGetCount: %w: it counts %d GPUs", ErrFailed, n)
	}
	return n, r.err
}

// remember stores what was read of a GPU. It returns the GPU; if it could not be read
// completely, with earlier values.
func (s *session) remember(g GPU) GPU {
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier, ok := s.known[g.Index]
	if g.Err != nil && ok && (g.UUID == "" || g.UUID == earlier.UUID) {
		g = fill(g, earlier)
	}
	if g.UUID != "" {
		if s.known == nil {
			s.known = map[int]GPU{}
		}
		s.known[g.Index] = g
	}
	return g
}

// fill adds earlier values where none were read. It leaves out the condition: an earlier
// one is no evidence.
func fill(g, earlier GPU) GPU {
	g.UUID = cmp.Or(g.UUID, earlier.UUID)
	g.PCIBusID = cmp.Or(g.PCIBusID, earlier.PCIBusID)
	g.Name = cmp.Or(g.Name, earlier.Name)
	g.Architecture = cmp.Or(g.Architecture, earlier.Architecture)
	g.Brand = cmp.Or(g.Brand, earlier.Brand)
	g.AddressingMode = cmp.Or(g.AddressingMode, earlier.AddressingMode)
	g.Serial = cmp.Or(g.Serial, earlier.Serial)
	if g.ComputeMajor == 0 {
		g.ComputeMajor, g.ComputeMinor = earlier.ComputeMajor, earlier.ComputeMinor
	}
	if g.Minor < 0 {
		g.Minor = earlier.Minor
	}
	g.MemoryBytes = cmp.Or(g.MemoryBytes, earlier.MemoryBytes)
	g.PowerLimitWatts = cmp.Or(g.PowerLimitWatts, earlier.PowerLimitWatts)
	g.Fabric = cmp.Or(g.Fabric, earlier.Fabric)
	if !g.MIGCapable {
		g.MIGCapable, g.MIGEnabled, g.MIGPending = earlier.MIGCapable, earlier.MIGEnabled, earlier.MIGPending
	}
	if g.MIGEnabled && len(g.Instances) < len(earlier.Instances) {
		g.Instances = earlier.Instances
	}
	if g.MIGEnabled && len(g.Profiles) < len(earlier.Profiles) {
		g.Profiles, g.GPUInstances = earlier.Profiles, earlier.GPUInstances
	}
	return g
}

// identities returns the GPUs that were ever read, by index.
func (s *session) identities() map[int]GPU {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// reader makes calls on one GPU and collects errors.
type reader struct {
	s   *session
	err error // the gravest, see fail
	end bool  // err ends the reading
}

// call makes one call, if the library has the function, and reports whether it
// succeeded. Not supported is no error.
func (r *reader) call(function string, f func() nvml.Return) bool {
	if r.end || !r.s.has(function) {
		return false
	}
	ret := f()
	if ret == nvml.SUCCESS {
		return true
	}
	if absent(ret) {
		return false
	}
	r.fail(failure(function, ret))
	return false
}

// fail stores the first error; one that ends the reading replaces one that does not.
func (r *reader) fail(err error) {
	end := fatal(err)
	if r.err == nil || end && !r.end {
		r.err = err
	}
	r.end = r.end || end
}
