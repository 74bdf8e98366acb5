package node

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

const (
	// mockDriver is the driver of the mock's devices, gpuClass the class of example.com/gpu.
	mockDriver = "mock.accelmux.io"
	gpuClass   = "gpu.example.com"
)

// installClaims installs the chart with examples/dra.yaml, whose devices play the test's
// scenario, and waits until they are published: mock-0 to mock-3 on NUMA node 0, of model M1,
// the others on node 1, of model M2. change changes the backend's part of the configuration.
func (n *node) installClaims(change ...func(backend map[string]any)) {
	n.Helper()
	n.installExample("dra", func(_ values, profiles []map[string]any) {
		backend := profiles[0]["backends"].([]any)[0].(map[string]any)
		backend["settings"].(map[string]any)["scenarioFile"] = filepath.Join(playDir, "scenario.yaml")
		for _, c := range change {
			c(backend)
		}
	})
	n.wantPublished(8)
}

// wantPublished waits until the driver's slices have that many devices.
func (n *node) wantPublished(devices int) {
	n.Helper()
	n.eventually("the devices are published", func() bool {
		published, err := publishedDevices(context.Background())
		return err == nil && len(published) == devices
	})
}

// publishedDevices returns the devices of the mock's slices, by name.
func publishedDevices(ctx context.Context) (map[string]resourcev1.Device, error) {
	return publishedBy(ctx, mockDriver)
}

// publishedBy returns the devices of a driver's slices, by name. There are none while the pool is
// incomplete.
func publishedBy(ctx context.Context, driver string) (map[string]resourcev1.Device, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, driver).String(),
	})
	if err != nil || len(list.Items) == 0 || int(list.Items[0].Spec.Pool.ResourceSliceCount) != len(list.Items) {
		return nil, err
	}
	all := map[string]resourcev1.Device{}
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			all[device.Name] = device
		}
	}
	return all, nil
}

// slicesWritten returns how often the slices of a driver that are there now were written.
func (n *node) slicesWritten(driver string) (writes int64) {
	n.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(n.soon(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, driver).String(),
	})
	if err != nil {
		n.Fatal(err)
	}
	for _, slice := range list.Items {
		writes += slice.Generation
	}
	return writes
}

// with is the node in the hands of a subtest.
func (n *node) with(t *testing.T) *node {
	t.Helper()
	part := *n
	part.T = t
	t.Cleanup(func() {
		if t.Failed() {
			part.dump()
		}
	})
	return &part
}

// newClaim is a claim for so many devices that a CEL expression selects; "" selects all.
func newClaim(name string, count int64, expression string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: gpuClass, Count: count, Tolerations: tolerations}
	if expression != "" {
		request.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}}}},
	}
}

// claim creates a claim. deletePods deletes it.
func (n *node) claim(claim *resourcev1.ResourceClaim) {
	n.Helper()
	if _, err := client.ResourceV1().ResourceClaims(pods).Create(n.soon(), claim, metav1.CreateOptions{}); err != nil {
		n.Fatalf("create the claim %s: %v", claim.Name, err)
	}
}

// claimingPod has one container, main, with the devices of a claim. With a grace period of 0 the API
// server would delete it before kubelet has ended it and unprepared its claim.
func claimingPod(name, claim string) *v1.Pod {
	pod := newPod(name, "", 0)
	*pod.Spec.TerminationGracePeriodSeconds = 1
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// startClaiming creates a claim and a pod with it, both of that name, and waits until the pod is
// ready.
func (n *node) startClaiming(name string, count int64) *v1.Pod {
	n.Helper()
	n.claim(newClaim(name, count, ""))
	n.create(claimingPod(name, name))
	return n.wantReady(name)
}

// allocated returns the devices that are allocated to a claim, sorted.
func (n *node) allocated(claim string) []string {
	n.Helper()
	object, err := client.ResourceV1().ResourceClaims(pods).Get(n.soon(), claim, metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	var names []string
	if object.Status.Allocation != nil {
		for _, result := range object.Status.Allocation.Devices.Results {
			names = append(names, result.Device)
		}
	}
	slices.Sort(names)
	return names
}

// wantClaimed checks that a pod's container has the devices of its claim, and returns them. Both
// have the pod's name.
func (n *node) wantClaimed(pod string) []string {
	n.Helper()
	allocated := n.allocated(pod)
	if sees := n.inside(pod); !slices.Equal(sees.env, allocated) || !slices.Equal(sees.nodes, allocated) {
		n.Errorf("pod %s has the devices %v, and in its container sees %+v", pod, allocated, sees)
	}
	return allocated
}

// examples are the directories with the examples of claims.
func examples() string { return filepath.Join(chart, "../../examples/dra") }

// apply applies the manifest of an example, and deletes its objects when the test ends.
func (n *node) apply(example string) {
	n.Helper()
	path := filepath.Join(examples(), example, "manifest.yaml")
	n.must("kubectl", "apply", "--filename="+path)
	n.Cleanup(func() { n.must("kubectl", "delete", "--ignore-not-found", "--filename="+path) })
}

// log returns what a container of an example's pod has printed of its devices, sorted.
func (n *node) log(namespace, pod, container string) []string {
	n.Helper()
	var lines []string
	n.eventually("the container "+container+" of "+pod+" prints its devices", func() bool {
		out, err := run(context.Background(), "kubectl", "logs", "--namespace="+namespace, pod, "--container="+container)
		lines = strings.Fields(out)
		return err == nil && len(lines) > 0
	})
	slices.Sort(lines)
	return lines
}

// records are the files of the claims that the agent has prepared, by the claim's UID.
func (n *node) records() map[string]string {
	n.Helper()
	paths, err := filepath.Glob(filepath.Join(stateDir, "claims", mockDriver+"_*"))
	if err != nil {
		n.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range paths {
		_, uid, _ := strings.Cut(filepath.Base(path), "_")
		all[uid] = path
	}
	return all
}

// wantNoRecord waits until no claim is prepared.
func (n *node) wantNoRecord() {
	n.Helper()
	n.eventually("no claim is prepared", func() bool { return len(n.records()) == 0 })
}
