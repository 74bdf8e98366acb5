package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/nvidia"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/nvml"
	"github.com/accelmux/accelmux/test/sysroot"
)

const nvidiaDriver = "gpu.nvidia.com"

// libraryDir has the double of NVIDIA's library.
var libraryDir string

var library = sync.OnceValues(func() (string, error) { return nvml.Build(context.Background(), libraryDir) })

func TestMain(m *testing.M) {
	var err error
	if libraryDir, err = os.MkdirTemp("", "claims"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(libraryDir)
	os.Exit(code)
}

// child is the directory from which TestReportOfNVIDIA gets its request, and into which it writes its report.
const child = "CLAIMS_TEST_DIR"

// TestReportOfNVIDIA is a process of other tests: a process has one library of NVIDIA's, which a backend closes after
// its end.
func TestReportOfNVIDIA(t *testing.T) {
	dir := os.Getenv(child)
	if dir == "" {
		return
	}
	request := &backendv1.ConfigureRequest{}
	encoded, err := os.ReadFile(filepath.Join(dir, "request"))
	if err = errors.Join(err, proto.Unmarshal(encoded, request)); err != nil {
		t.Fatal(err)
	}
	b := nvidia.New(func(int) { t.Error("the backend wants to be started again") })
	if encoded, err = proto.Marshal(report(t, b, request, int(request.GetRevision()))); err == nil {
		err = os.WriteFile(filepath.Join(dir, "report"), encoded, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withNVIDIA returns a node with n devices of GPUs at the first PCI addresses of the double.
func withNVIDIA(t *testing.T, strategy string, n, gpus int, change func(nvml.State)) node {
	t.Helper()
	dir, files := t.TempDir(), sysroot.NewFiles(t)
	built, err := library()
	if err != nil {
		t.Fatal(err)
	}
	double, err := nvml.New(built, dir)
	if err = errors.Join(err, double.Update(change)); err != nil {
		t.Fatal(err)
	}
	for slot := range gpus {
		files.PCI("sys", fmt.Sprintf("0000:%02x:00.0", 0x10+slot), "nvidia", map[string]string{"vendor": "0x10de", "device": "0x2330", "class": "0x030200", "numa_node": "1"})
	}
	settings := fmt.Sprintf(`{"library": %q, "edits": {"mode": "runtime"}, "mig": {"strategy": %q, "stateFile": %q}}`, built, strategy, dir+"/mig.json")
	request, err := proto.Marshal(&backendv1.ConfigureRequest{
		SettingsJson: []byte(settings), Revision: uint64(n),
		Paths: &backendv1.HostPaths{Sysfs: files.Path("sys"), Devfs: files.Path("dev"), Procfs: files.Path("proc")},
	})
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "request"), request, 0o600)); err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReportOfNVIDIA$")
	process.Env = append(append(os.Environ(), double.Env()...), child+"="+dir)
	if out, err := process.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	encoded, err := os.ReadFile(filepath.Join(dir, "report"))
	reported := &backendv1.Inventory{}
	if err = errors.Join(err, proto.Unmarshal(encoded, reported)); err != nil {
		t.Fatal(err)
	}
	return publish(t, nvidia.New(nil), nvidiaDriver, reported)
}

// static makes two GPUs with MIG devices that an administrator has made: 1g.10gb, 2g.20gb and 3g.40gb.
func static(s nvml.State) {
	for slot := range 2 {
		s.AddGPU(slot)
		for index, m := range []struct {
			slices, memory int
			at             string
		}{{1, 10 << 10, "19 0 1"}, {2, 20 << 10, "14 2 2"}, {3, 40 << 10, "9 4 4"}} {
			s.AddMIG(slot, index, m.slices, m.memory).Set("attribute.decoders", 1)
			s.GPU(slot).Set(fmt.Sprintf("gi.%d", index+1), m.at)
		}
	}
}

// Verifies that a GPU and a MIG device have the attributes and capacities that NVIDIA's driver publishes of them:
// those of cmd/gpu-kubelet-plugin/{deviceinfo,mig,partitions}.go of kubernetes-sigs/dra-driver-nvidia-gpu at 0545e9e5
// (mig.go and deviceinfo.go) and 095b7a19, which is v0.4.1-rc.1 or later. Brands and addressing modes are written as
// go-nvlib 0.12 does.
func TestAttributesOfNVIDIAsDriver(t *testing.T) {
	gpu := map[string]string{
		"type": "string gpu", "uuid": "string " + nvml.UUID(1), "productName": "string NVIDIA H100 80GB HBM3", "brand": "string Nvidia", "architecture": "string Hopper",
		"cudaComputeCapability": "version 9.0.0", "driverVersion": "version 580.65.6", "cudaDriverVersion": "version 13.0.0", "addressingMode": "string HMM",
		"resource.kubernetes.io/pciBusID": "string 0000:11:00.0", "resource.kubernetes.io/pcieRoot": "string pci0000:11", "resource.kubernetes.io/numaNode": "int 1",
		"memory": "capacity 80Gi",
	}
	withNVIDIA(t, "none", 2, 2, func(s nvml.State) { s.AddGPU(0); s.AddGPU(1) }).has(t, nvml.UUID(1), gpu)
	mig := map[string]string{
		"type": "string mig", "parentUUID": gpu["uuid"], "profile": "string 2g.20gb", "memory": "capacity 20Gi",
		"multiprocessors": "capacity 32", "copyEngines": "capacity 2", "decoders": "capacity 1", "encoders": "capacity 0", "jpegEngines": "capacity 0", "ofaEngines": "capacity 0",
	}
	for _, name := range []string{
		"productName", "brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion", "addressingMode",
		"resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode",
	} {
		mig[name] = gpu[name]
	}
	potential := nvml.UUID(1) + "-2g.20gb-2"
	n := withNVIDIA(t, "dynamic", 1+25, 2, func(s nvml.State) { s.AddGPU(0); s.AddGPU(1); s.Partition(1) })
	mig["decoders"] = "capacity 2"
	n.has(t, potential, mig) // its feature DynamicMIG
	mig["decoders"] = "capacity 1"
	mig["uuid"], mig["memorySlice2"], mig["memorySlice3"] = "string "+nvml.MIGUUID(1, 1), "capacity 1", "capacity 1"
	n = withNVIDIA(t, "mixed", 6, 2, static)
	n.has(t, nvml.MIGUUID(1, 1), mig)
	if d := n.device(t, nvml.MIGUUID(1, 1)); len(d.Capacity) != 9 {
		t.Errorf("a MIG device has other capacities than that of NVIDIA's driver: %v", d.Capacity)
	}
}

// Verifies that the example claims of NVIDIA's driver get what it gives them: those of its guides to the allocation of
// GPUs and of MIG devices (site/content/docs/guides/gpu-allocation), of demo/specs/quickstart, and of its article on
// partitions (KEP-4815).
func TestClaimsForNVIDIAsDriver(t *testing.T) {
	whole := withNVIDIA(t, "none", 3, 3, func(s nvml.State) {
		s.AddGPU(0)
		s.AddGPU(1).Set("name", "NVIDIA A100-SXM4-40GB").Set("architecture", 7).Set("compute-capability", "8.0").Set("memory.total", 40<<30)
		s.AddGPU(2).Set("name", "NVIDIA H200").Set("memory.total", 141<<30)
	})
	parts := withNVIDIA(t, "mixed", 6, 2, static)
	dynamic := withNVIDIA(t, "dynamic", 2*25, 2, func(s nvml.State) {
		for slot := range 2 {
			s.AddGPU(slot)
			s.Partition(slot)
		}
	})
	request := func(name, class, expression string) string {
		return fmt.Sprintf("{name: %s, exactly: {deviceClassName: %s, selectors: [{cel: {expression: %q}}]}}", name, class, expression)
	}
	one := func(expression string) string {
		return "devices: {requests: [" + request("gpu", nvidiaDriver, expression) + "]}"
	}
	profile := func(name string) string { return "device.attributes['gpu.nvidia.com'].profile == '" + name + "'" }
	together := func(profiles ...string) string {
		var all []string
		for i, p := range profiles {
			all = append(all, request(fmt.Sprintf("mig-%d", i), "mig.nvidia.com", profile(p)))
		}
		return "devices: {requests: [" + strings.Join(all, ", ") + `], constraints: [{requests: [], matchAttribute: "gpu.nvidia.com/parentUUID"}]}`
	}
	of := func(slot int) func([]string) bool {
		return func(ids []string) bool { return slices.Equal(ids, []string{nvml.UUID(slot)}) }
	}
	for name, c := range map[string]struct {
		on    node
		claim string
		want  func(ids []string) bool
	}{
		"any GPU":              {whole, "devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}", func(ids []string) bool { return len(ids) == 1 }},
		"several GPUs":         {whole, "devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}", func(ids []string) bool { return len(ids) == 2 }},
		"product name":         {whole, one("device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')"), of(1)},
		"memory size":          {whole, one(`device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity("100Gi"))`), of(2)},
		"architecture, memory": {whole, one("device.attributes['gpu.nvidia.com'].architecture == 'Hopper' && " + `device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity("80Gi"))`), of(2)},
		"compute capability":   {whole, one("device.attributes['gpu.nvidia.com'].cudaComputeCapability.isLessThan(semver('9.0.0'))"), of(1)},
		"brand":                {whole, one("device.attributes['gpu.nvidia.com'].brand == 'GeForce'"), func(ids []string) bool { return len(ids) == 0 }},
		"any MIG device":       {parts, "devices: {requests: [{name: mig, exactly: {deviceClassName: mig.nvidia.com}}]}", func(ids []string) bool { return len(ids) == 1 && strings.HasPrefix(ids[0], "MIG-") }},
		"no MIG device":        {whole, "devices: {requests: [{name: mig, exactly: {deviceClassName: mig.nvidia.com}}]}", func(ids []string) bool { return len(ids) == 0 }},
		"MIG profile": {parts, "devices: {requests: [" + request("mig", "mig.nvidia.com", profile("2g.20gb")) + "]}", func(ids []string) bool {
			return slices.Equal(ids, []string{nvml.MIGUUID(0, 1)}) || slices.Equal(ids, []string{nvml.MIGUUID(1, 1)})
		}},
		"MIG device by capacity": {
			parts, "devices: {requests: [" + request("mig", "mig.nvidia.com", `device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity("10Gi")) && `+
				`device.capacity['gpu.nvidia.com'].multiprocessors.isGreaterThan(quantity("40"))`) + "]}",
			func(ids []string) bool {
				return slices.Equal(ids, []string{nvml.MIGUUID(0, 2)}) || slices.Equal(ids, []string{nvml.MIGUUID(1, 2)})
			},
		},
		"MIG devices of one GPU": {parts, together("1g.10gb", "2g.20gb"), func(ids []string) bool {
			return slices.Equal(ids, []string{nvml.MIGUUID(0, 0), nvml.MIGUUID(0, 1)}) || slices.Equal(ids, []string{nvml.MIGUUID(1, 0), nvml.MIGUUID(1, 1)})
		}},
		"without an encoder": {parts, one("device.capacity['gpu.nvidia.com'].encoders.compareTo(quantity('0')) == 0 && device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"),
			func(ids []string) bool { return len(ids) == 1 }},
		"partitions of one GPU": {dynamic, together("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"), func(ids []string) bool {
			return len(ids) == 4 && !slices.ContainsFunc(ids, func(id string) bool { return id[:len(nvml.UUID(0))] != ids[0][:len(nvml.UUID(0))] })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if ids := c.on.allocate(t, c.claim); !c.want(ids) {
				t.Errorf("the claim gets %v", ids)
			}
		})
	}
}
