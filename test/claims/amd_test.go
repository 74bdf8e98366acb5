package claims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/amd"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
)

const amdDriver = "gpu.amd.com"

// withAMD returns a node with the GPUs of a machine, of which its partitions are n devices.
func withAMD(t *testing.T, m amdtree.Machine, strategy string, n int) node {
	t.Helper()
	tree, procfs, state := amdtree.New(t, m), t.TempDir(), t.TempDir()
	boot := filepath.Join(procfs, "sys/kernel/random/boot_id")
	if err := errors.Join(os.MkdirAll(filepath.Dir(boot), 0o755), os.WriteFile(boot, []byte("6a5c3e0e-0000-4000-8000-000000000000\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`{"partitions": {"strategy": %q, "stateFile": %q}, "health": {"stateFile": %q}}`,
		strategy, filepath.Join(state, "partitions.json"), filepath.Join(state, "errors.json"))
	return publish(t, amd.New(), amdDriver, report(t, amd.New(), &backendv1.ConfigureRequest{
		SettingsJson: []byte(settings), Revision: 1,
		Paths: &backendv1.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: procfs},
	}, n))
}

// newMI300X is a machine in the modes, with AMD's own driver, whose version has four parts since 6.19.14, and no BMC, so
// that no partition is missing.
func newMI300X(compute, memory string) amdtree.Machine {
	m := amdtree.NewMI300X(compute, memory)
	m.DriverVersion, m.Cards = "6.19.14.31400000", 0
	return m
}

func id(g amdtree.GPU) string { return gpu.ID(g.UniqueID, g.Address) }

// Verifies that a GPU and a partition have the attributes and capacities that AMD's driver publishes of them: those
// of docs/driver-attributes.md and cmd/gpu-kubeletplugin/deviceinfo.go of ROCm/k8s-gpu-dra-driver at 06dbe583 and
// 08bc729c, which is later than its release v1.0.1. They have been the same since its pull request 36, and so in all
// its releases: v1.0.0 is three weeks younger. Before that, deviceID was not the PCI device ID but KFD's unique ID or an
// address, and was missing on partitions.
func TestAttributesOfAMDsDriver(t *testing.T) {
	m := newMI300X("SPX", "NPS1")
	g := m.GPUs[5]
	withAMD(t, m, "mixed", 8).has(t, id(g), map[string]string{
		"type": "string amdgpu", "productName": "string AMD_Instinct_MI300X_OAM", "deviceID": "string 0x74a1",
		"driverVersion": "version 6.19.14", "driverVersionFull": "string 6.19.14.31400000", "partitionProfile": "string spx_nps1", "numaNode": "int 1",
		"resource.kubernetes.io/pciBusID": "string 0000:a7:00.0", "resource.kubernetes.io/pcieRoot": "string pci0000:a7",
		"memory": "capacity 192Gi", "computeUnits": "capacity 304", "simdUnits": "capacity 1216",
	})
	m = newMI300X("CPX", "NPS4")
	for _, strategy := range []string{"single", "mixed"} {
		withAMD(t, m, strategy, 64).has(t, id(g)+"-cpx-3", map[string]string{
			"type": "string amdgpu-partition", "productName": "string AMD_Instinct_MI300X_OAM", "deviceID": "string 0x74a1",
			"driverVersion": "version 6.19.14", "driverVersionFull": "string 6.19.14.31400000", "partitionProfile": "string cpx_nps4", "numaNode": "int 1",
			"resource.kubernetes.io/pciBusID": "string 0000:a7:00.0", "resource.kubernetes.io/pcieRoot": "string pci0000:a7",
			"memory": "capacity 24Gi", "computeUnits": "capacity 38", "simdUnits": "capacity 152",
		})
	}
	// Its beta feature AutoPartition has one device for all partitions of a mode; here each is a device, of which a
	// claim for one partition gets one.
	withAMD(t, m, "dynamic", 8*(1+2+4+8)).has(t, id(g)+"-dpx-1", map[string]string{
		"type": "string amdgpu-partition", "computePartition": "string dpx", "memoryPartition": "string nps4", "gpuIndex": "int 5",
		"pciAddr": "string 0000:a7:00.0", "productName": "string AMD_Instinct_MI300X_OAM", "deviceID": "string 0x74a1",
		"driverVersion": "version 6.19.14", "driverVersionFull": "string 6.19.14.31400000", "numaNode": "int 1",
		"resource.kubernetes.io/pciBusID": "string 0000:a7:00.0", "resource.kubernetes.io/pcieRoot": "string pci0000:a7",
		"partitions": "capacity 1", "memory": "capacity 96Gi", "computeUnits": "capacity 152", "simdUnits": "capacity 608",
	})
}

// amdRequest is a request of the example claims, for one device.
func amdRequest(name, expression string) string {
	return fmt.Sprintf(`{name: %s, exactly: {deviceClassName: gpu.amd.com, selectors: [{cel: {expression: %q}}]}}`, name, expression)
}

// Verifies that the example claims of AMD's driver get what it gives them: those of its directory example, of
// docs/driver-attributes.md at 06dbe583 and docs/device-plugin-to-dra-partitions.md at 586f959c, and those of AMD's
// article rocm.blogs.amd.com/software-tools-optimization/dra-gpu of January 2026.
func TestClaimsForAMDsDriver(t *testing.T) {
	const of, partition = `device.attributes["gpu.amd.com"].`, `device.attributes["gpu.amd.com"].type == "amdgpu-partition"`
	two := func(constraint string) string {
		return fmt.Sprintf("devices: {requests: [%s, %s], constraints: [{requests: [p0, p1], %s}]}", amdRequest("p0", partition), amdRequest("p1", partition), constraint)
	}
	one := func(expression string) string { return "devices: {requests: [" + amdRequest("gpu", expression) + "]}" }
	automatic := func(compute, memory string) string {
		return fmt.Sprintf(`devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.amd.com, capacity: {requests: {partitions: "1"}}, selectors: [{cel: {expression:
			'device.attributes["gpu.amd.com"].computePartition == %q && device.attributes["gpu.amd.com"].memoryPartition == %q'}}]}}]}`, compute, memory)
	}
	cpx, spx := newMI300X("CPX", "NPS4"), newMI300X("SPX", "NPS1")
	mixed := newMI300X("SPX", "NPS1")
	mixed.GPUs[0].Compute, mixed.GPUs[0].Memory = "CPX", "NPS4"
	parts := withAMD(t, cpx, "mixed", 64)
	if want := []string{"not published: attribute availableComputePartitions, attribute availableMemoryPartitions, capacity computeDies, " +
		"attribute accelmux.io/numaNode, attribute accelmux.io/pciBusID, attribute accelmux.io/backendVersion: " +
		"a device has at most 32 attributes and capacities"}; !slices.Equal(parts.Notes, want) {
		t.Errorf("notes %q, want %q", parts.Notes, want)
	}
	whole := withAMD(t, spx, "mixed", 8)
	both := withAMD(t, mixed, "mixed", 15)
	parents := func(ids []string) int {
		var all []string
		for _, id := range ids {
			all = append(all, strings.Join(strings.Split(id, "-")[:2], "-"))
		}
		slices.Sort(all)
		return len(slices.Compact(all))
	}
	for name, c := range map[string]struct {
		on    node
		claim string
		want  func(ids []string) bool
	}{
		"example.yaml":                             {whole, `devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.amd.com}}]}`, func(ids []string) bool { return len(ids) == 1 }},
		"example-partitions-same-parent.yaml":      {parts, two("matchAttribute: resource.kubernetes.io/pciBusID"), func(ids []string) bool { return len(ids) == 2 && parents(ids) == 1 }},
		"example-partitions-distinct-parents.yaml": {parts, two("distinctAttribute: resource.kubernetes.io/pciBusID"), func(ids []string) bool { return len(ids) == 2 && parents(ids) == 2 }},
		"same parent, for a driver before v1.0.0":  {parts, two("matchAttribute: gpu.amd.com/deviceID"), func(ids []string) bool { return len(ids) == 2 && parents(ids) == 2 }}, // as with AMD's releases
		"no partitions":                            {whole, two("matchAttribute: resource.kubernetes.io/pciBusID"), func(ids []string) bool { return len(ids) == 0 }},
		"only full GPUs":                           {both, one(of + `type == "amdgpu"`), func(ids []string) bool { return len(ids) == 1 && !strings.Contains(ids[0], "-cpx-") }},
		"only partitions":                          {both, one(partition), func(ids []string) bool { return len(ids) == 1 && strings.Contains(ids[0], "-cpx-") }},
		"the model":                                {whole, one(of + `deviceID == "0x74a1"`), func(ids []string) bool { return len(ids) == 1 }},
		"another model":                            {whole, one(of + `deviceID == "0x740f"`), func(ids []string) bool { return len(ids) == 0 }},
		"NUMA node":                                {whole, one(of + "numaNode == 1"), func(ids []string) bool { return len(ids) == 1 && slices.Index(gpuIDs(spx), ids[0]) >= 4 }},
		"example-numa-aligned-gpus.yaml": {
			whole, `devices: {requests: [{name: g, exactly: {deviceClassName: gpu.amd.com, count: 4}}], constraints: [{matchAttribute: gpu.amd.com/numaNode}]}`,
			func(ids []string) bool {
				return len(ids) == 4 && slices.Index(gpuIDs(spx), ids[0])/4 == slices.Index(gpuIDs(spx), ids[3])/4
			},
		},
		"enough memory": {
			both, one(`cel.bind(cap, device.capacity["gpu.amd.com"], has(cap.memory) && cap.memory.compareTo(quantity("25Gi")) >= 0)`),
			func(ids []string) bool { return len(ids) == 1 && !strings.Contains(ids[0], "-cpx-") },
		},
		"product and profile": {
			both, `devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.amd.com, capacity: {requests: {memory: 192Gi}}, selectors: [{cel: {expression:
				'device.attributes["gpu.amd.com"].productName == "AMD_Instinct_MI300X_OAM" && device.attributes["gpu.amd.com"].partitionProfile == "spx_nps1"'}}]}}]}`,
			func(ids []string) bool { return len(ids) == 1 && !strings.Contains(ids[0], "-cpx-") },
		},
		"auto-partition-cpx-nps4.yaml": {
			withAMD(t, cpx, "dynamic", 120), automatic("cpx", "nps4"), func(ids []string) bool { return len(ids) == 1 && strings.Contains(ids[0], "-cpx-") },
		},
		"auto-partition-spx.yaml": {
			withAMD(t, spx, "dynamic", 120), automatic("spx", "nps1"), func(ids []string) bool { return len(ids) == 1 && slices.Contains(gpuIDs(spx), ids[0]) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if ids := c.on.allocate(t, c.claim); !c.want(ids) {
				t.Errorf("the claim gets %v", ids)
			}
		})
	}
}

func gpuIDs(m amdtree.Machine) (all []string) {
	for _, g := range m.GPUs {
		all = append(all, id(g))
	}
	return all
}
