package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/test/nvml"
)

// nvidiaDriver is the name of NVIDIA's own driver, and of its class of GPUs.
const nvidiaDriver = "gpu.nvidia.com"

// classesOfNVIDIA are the classes that NVIDIA's driver comes with. Pods may ask for its GPUs by the
// name that they have by the device plugin API.
var classesOfNVIDIA = values{
	nvidiaDriver: values{
		"extendedResourceName": nvidiaGPU,
		"selectors":            []values{{"cel": values{"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}},
	},
	"mig.nvidia.com": values{
		"selectors": []values{{"cel": values{"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"}}},
	},
}

// Verifies that the NVIDIA backend serves the claims and classes that are written for NVIDIA's driver,
// and pods that ask for nvidia.com/gpu: they get their GPUs with the driver's files; and MIG devices
// that are made take the place of their GPU.
func TestNVIDIAGPUsByClaims(t *testing.T) {
	n := beginNVIDIA(t, 4)
	n.installNVIDIA(func(example values, profile map[string]any) {
		example["deviceClasses"] = values{"create": false, "extra": classesOfNVIDIA}
		profile["backends"].([]any)[0].(map[string]any)["dra"] = values{"driver": nvidiaDriver}
		for _, r := range profile["resources"].([]any) {
			r.(map[string]any)["api"] = "dra"
		}
	})
	n.readProcFrom(nvidiaSeen + "/proc")
	n.wantPublishedGPUs("four healthy GPUs", func(published map[string]resourcev1.Device) bool { return len(published) == 4 })
	one := n.startWithGPUs("one", nvidiaDriver, 2, "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$') && "+
		"device.attributes['gpu.nvidia.com'].cudaComputeCapability.isGreaterThan(semver('8.9.0')) && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0")
	n.wantClaimedGPUs("one", "one", 2)
	n.create(newPod("extended", nvidiaGPU, 1))
	extended := n.wantByClaim("extended")
	n.wantClaimedGPUs("extended", extended.Status.ExtendedResourceClaimStatus.ResourceClaimName, 1)

	taken := append(n.allocated("one"), n.allocated(extended.Status.ExtendedResourceClaimStatus.ResourceClaimName)...)
	slot := 0
	for slices.Contains(taken, strings.ToLower(nvml.UUID(slot))) {
		slot++
	}
	n.createMIG(slot, 0, 1)
	n.wantPublishedGPUs("two MIG devices instead of the GPU", func(published map[string]resourcev1.Device) bool {
		_, whole := published[strings.ToLower(nvml.UUID(slot))]
		return len(published) == 5 && !whole
	})
	n.startWithGPUs("mig", "mig.nvidia.com", 1, "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")
	index := slices.Index([]string{strings.ToLower(nvml.MIGUUID(slot, 0)), strings.ToLower(nvml.MIGUUID(slot, 1))}, n.allocated("mig")[0])
	if index < 0 {
		t.Fatalf("the pod has %q", n.allocated("mig"))
	}
	n.wantInside("mig", "void", fmt.Sprintf("/dev/nvidia%d", slot), migNode(slot, index, 0), migNode(slot, index, 1))
	n.wantUntouched(one)
	n.wantUntouched(extended)
}

// Verifies that MIG devices are made for claims: the pod gets the nodes of the one that was created for it, also
// from an agent that was restarted meanwhile, and it is destroyed with its claim; that no slice is written for that; and that the pod's Events have
// the driver's reason if it cannot be created.
func TestMIGDevicesAreMadeForClaims(t *testing.T) {
	n := beginNVIDIA(t, 1)
	for index := range 3 {
		if err := n.host.AddMIG(0, index); err != nil {
			t.Fatal(err)
		}
	}
	n.update(func(s nvml.State) { s.Partition(0) })
	n.installNVIDIA(func(example values, profile map[string]any) {
		example["deviceClasses"] = values{"create": false, "extra": classesOfNVIDIA}
		backend := profile["backends"].([]any)[0].(map[string]any)
		backend["dra"] = values{"driver": nvidiaDriver}
		backend["settings"].(map[string]any)["mig"] = values{"strategy": "dynamic"}
		backend["env"].(map[string]string)["ACCELMUX_NVML_MADE"] = stateDir + "/backends/nvidia/nvml.made"
		profile["resources"] = []values{{"name": "nvidia.com/mig-{profile}", "class": "mig", "api": "dra"}}
	})
	n.readProcFrom(nvidiaSeen + "/proc")
	n.wantPublishedGPUs("25 potential MIG devices", func(published map[string]resourcev1.Device) bool { return len(published) == 25 })
	profile := func(name string) string { return "device.attributes['gpu.nvidia.com'].profile == '" + name + "'" }
	written := n.slicesWritten(nvidiaDriver)
	one := n.startWithGPUs("one", "mig.nvidia.com", 1, profile("3g.40gb"))
	made := nvml.UUID(0) + "-3g.40gb-4"
	n.wantMade(made)
	n.wantInside("one", "void", "/dev/nvidia0", migNode(0, 0, 0), migNode(0, 0, 1))

	n.update(func(s nvml.State) {
		s.GPU(0).Fail("nvmlDeviceCreateGpuInstanceWithPlacement", "INSUFFICIENT_RESOURCES")
	})
	claim := newClaim("two", 1, profile("1g.10gb"))
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "mig.nvidia.com"
	n.claim(claim)
	n.create(claimingPod("two", "two"))
	n.wantPodEvent("two", "FailedPrepareDynamicResources", "create the MIG device 1g.10gb at slice 3 of GPU "+nvml.UUID(0))
	n.deletePod(n.agentPod())
	n.update(func(s nvml.State) { s.GPU(0).Mend("nvmlDeviceCreateGpuInstanceWithPlacement") })
	n.wantReady("two")
	n.wantMade(made, nvml.UUID(0)+"-1g.10gb-3")
	n.wantInside("two", "void", "/dev/nvidia0", migNode(0, 1, 0), migNode(0, 1, 1))
	n.wantUntouched(one)
	n.delete("one")
	n.delete("two")
	n.wantMade()
	n.wantNoRecord()
	if again := n.slicesWritten(nvidiaDriver) - written; again != 0 {
		t.Errorf("two claims led to %d writes of slices, want none", again)
	}
}

// Verifies that claims set the time slices of the GPU that they share by the driver's nvidia-smi, in the driver's
// root; that a claim with another interval waits for the end of the first; and that the last one leaves the default.
func TestTimeSlices(t *testing.T) {
	n := beginNVIDIA(t, 1)
	shell, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	n.write("driver/bin/sh", string(text), 0o755)
	n.write("driver/usr/bin/nvidia-smi", "#!/bin/sh\n[ \"$1 $2 $4\" = \"compute-policy -i --set-timeslice\" ] && echo \"$3 $5\" >/slices\n", 0o755)
	n.write("driver/slices", "", 0o644)
	n.installNVIDIAExample("dra-nvidia", func(_ values, profile map[string]any) {
		allow := profile["backends"].([]any)[0].(map[string]any)["allow"].(map[string]any)
		allow["process"].(values)["write"] = []string{nvidiaSeen + "/driver/slices"} // the stand-in's
	})
	n.readProcFrom(nvidiaSeen + "/proc")
	n.apply("time-slices")
	interval := func(want string) {
		t.Helper()
		n.eventually("the GPU has the interval "+want, func() bool {
			text, err := os.ReadFile(filepath.Join(nvidiaDir, "driver/slices"))
			return err == nil && strings.TrimSpace(string(text)) == nvml.UUID(0)+" "+want
		})
	}
	// Either may be the first.
	first, second, numbers := "short", "long", []string{"1", "3"}
	n.eventually("one of the pods is ready", func() bool {
		pod, err := client.CoreV1().Pods(pods).Get(n.soon(), "slices-long", metav1.GetOptions{})
		if err == nil && ready(pod) {
			first, second, numbers = "long", "short", []string{"3", "1"}
			return true
		}
		pod, err = client.CoreV1().Pods(pods).Get(n.soon(), "slices-short", metav1.GetOptions{})
		return err == nil && ready(pod)
	})
	interval(numbers[0])
	named := map[string]string{"short": "Short", "long": "Long"}
	n.wantPodEvent("slices-"+second, "FailedPrepareDynamicResources", fmt.Sprintf("GPU %s cannot have time slices of the interval %s: ", nvml.UUID(0), named[second]))
	n.delete("slices-" + first)
	n.wantReady("slices-" + second)
	interval(numbers[1])
	n.deletePod(n.agentPod())
	n.delete("slices-" + second)
	interval("0")
	n.wantNoRecord()
}

// startWithGPUs starts a pod with a claim of its name, for devices of a class that a CEL expression
// selects.
func (n *nvidiaNode) startWithGPUs(name, class string, count int64, expression string) *v1.Pod {
	n.Helper()
	claim := newClaim(name, count, expression)
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = class
	n.claim(claim)
	n.create(claimingPod(name, name))
	return n.wantReady(name)
}

// wantPublishedGPUs waits until the driver's devices, by name, are so.
func (n *nvidiaNode) wantPublishedGPUs(what string, condition func(published map[string]resourcev1.Device) bool) {
	n.Helper()
	n.eventually(what, func() bool {
		published, err := publishedBy(context.Background(), nvidiaDriver)
		return err == nil && published != nil && condition(published)
	})
}

// wantClaimedGPUs checks that a pod's container sees so many GPUs, those of its claim, and no other.
func (n *nvidiaNode) wantClaimedGPUs(pod, claim string, count int) {
	n.Helper()
	var ids []string
	for _, name := range n.allocated(claim) {
		ids = append(ids, "GPU-"+strings.TrimPrefix(name, "gpu-"))
	}
	n.wantGPUs(pod, count, ids)
}
