package dra

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapbv1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
)

// Verifies that a claim is prepared once, that kubelet gets the same answer however often it asks
// and whatever was restarted in between, and that an unprepare ends it as often as it comes.
func TestPrepare(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"), device("GPU-1"))
	shared := result("b/first", "gpu-1")
	shared.ShareID = new(types.UID("share"))
	c := r.allocate(t, "x", nil, result("a", "gpu-0"), shared,
		resourceapi.DeviceRequestAllocationResult{Request: "other", Driver: "other.example.com", Pool: node, Device: "nic"})
	want := []string{
		"[a] node-1 gpu-0 [mock.accelmux.io/holder=GPU-0::uid-x] ",
		"[b] node-1 gpu-1 [mock.accelmux.io/holder=GPU-1::uid-x] share",
	}
	for i := range 4 {
		got, problem := r.prepare(t, c)
		if diff := cmp.Diff(want, got); diff != "" || problem != "" {
			t.Errorf("call %d: %s (-want +got):\n%s", i, problem, diff)
		}
		if i == 1 {
			r.restart(t)
		}
	}
	if n := len(r.lifecycle.prepared); n != 1 {
		t.Errorf("it was prepared %d times", n)
	}
	if d := r.lifecycle.prepared[0].Devices; d[0].Shared || !d[1].Shared || d[1].Request != "b/first" {
		t.Errorf("the devices are %+v", d)
	}
	r.boot = "boot-2"
	r.restart(t)
	if got, problem := r.prepare(t, c); cmp.Diff(want, got) != "" || len(r.lifecycle.prepared) != 2 {
		t.Errorf("after a reboot: %v, %s; it was prepared %d times", got, problem, len(r.lifecycle.prepared))
	}
	r.unprepare(t, c)
	r.unprepare(t, c)
	if len(r.lifecycle.ended) == 0 || r.lifecycle.ended[0] != "uid-x" || r.opts.Record.Get(driverName, "uid-x") != nil {
		t.Errorf("ended are %v", r.lifecycle.ended)
	}
}

// Verifies that the backend gets the amounts of a share, those of several shares of one request together,
// and only those of capacities with a policy; that the record has them; and that shares of a device for different requests, which the
// containers' definitions cannot tell apart, are refused.
func TestPrepareShares(t *testing.T) {
	r := newRig(t)
	gpu := device("GPU-0")
	gpu.Shareable = true
	gpu.Capacities = inventory.ByName[int64]{{Name: "memory", Value: 80}, {Name: "powerLimit", Value: 300}}
	gpu.Policies = inventory.ByName[inventory.RequestPolicy]{{Name: "memory", Value: inventory.RequestPolicy{Default: 1}}}
	r.publish(t, gpu)
	share := func(request, id, memory string) resourceapi.DeviceRequestAllocationResult {
		one := result(request, "gpu-0")
		one.ShareID = new(types.UID(id))
		one.ConsumedCapacity = map[resourceapi.QualifiedName]quantity.Quantity{"memory": quantity.MustParse(memory), "powerLimit": quantity.MustParse("0")}
		return one
	}
	got, problem := r.prepare(t, r.allocate(t, "x", nil, share("a", "one", "8"), share("a", "two", "16")))
	want := []string{
		"[a] node-1 gpu-0 [mock.accelmux.io/holder=GPU-0::uid-x] one",
		"[a] node-1 gpu-0 [mock.accelmux.io/holder=GPU-0::uid-x] two",
	}
	if diff := cmp.Diff(want, got); diff != "" || problem != "" {
		t.Fatalf("%s (-want +got):\n%s", problem, diff)
	}
	if d := r.lifecycle.prepared[0].Devices; len(d) != 1 || !d[0].Shared || cmp.Diff(map[string]int64{"memory": 24}, d[0].Amounts) != "" {
		t.Errorf("the devices are %+v", d)
	}
	again := bookIn(t, r.dir).AllocationsOf(inventory.Key{Backend: "mock", ID: "GPU-0"}) // as after a restart
	if len(again) != 1 || cmp.Diff(map[string]int64{"memory": 24}, again[0].Amounts) != "" {
		t.Errorf("restored are %+v", again)
	}
	if _, problem := r.prepare(t, r.allocate(t, "y", nil, share("a", "one", "8"), share("b", "two", "8"))); !strings.Contains(problem, "requests a and b have a share each of device GPU-0: use two claims") {
		t.Errorf("shares for different requests: %q", problem)
	}
}

// Verifies that a claim that must not be prepared is refused with the reason, and leaves nothing.
func TestPrepareRefused(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"), unhealthy("GPU-1"))
	parameters := func(source resourceapi.AllocationConfigSource, text string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{Source: source, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driverName, Parameters: runtime.RawExtension{Raw: []byte(text)}},
		}}
	}
	given := func(text string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{parameters(resourceapi.AllocationConfigSourceClaim, text)}
		}
	}
	elsewhere := result("a", "gpu-0")
	elsewhere.Pool = "node-2"
	for name, c := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		result resourceapi.DeviceRequestAllocationResult
		want   string
	}{
		"unknown-device":  {nil, result("a", "gpu-7"), "gpu-7 is not on this node"},
		"another-node":    {nil, elsewhere, "not of this node"},
		"unhealthy":       {nil, result("a", "gpu-1"), "too hot"},
		"unknown-kind":    {given(`{"apiVersion":"x/v1","kind":"GpuConfig"}`), result("a", "gpu-0"), `kind "GpuConfig"`},
		"unknown-field":   {given(`{"apiVersion":"accelmux.io/v1alpha1","kind":"DeviceParameters","parameter":{}}`), result("a", "gpu-0"), `unknown field "parameter"`},
		"twice":           {given(`{"apiVersion":"accelmux.io/v1alpha1","kind":"DeviceParameters","parameters":{"mode":"fast","mode":"slow"}}`), result("a", "gpu-0"), "duplicate field"},
		"unknown-name":    {given(`{"apiVersion":"accelmux.io/v1alpha1","kind":"DeviceParameters","parameters":{"mod":"fast"}}`), result("a", "gpu-0"), "mode"},
		"unsuitable-type": {given(`{"apiVersion":"accelmux.io/v1alpha1","kind":"DeviceParameters","parameters":{"level":"high"}}`), result("a", "gpu-0"), `level: must be a whole number`},
		"no-device":       {nil, resourceapi.DeviceRequestAllocationResult{Request: "a", Driver: "other.example.com", Pool: node, Device: "x"}, "no device of driver"},
	} {
		t.Run(name, func(t *testing.T) {
			devices, problem := r.prepare(t, r.allocate(t, name, c.change, c.result))
			if len(devices) > 0 || !strings.Contains(problem, c.want) || !strings.Contains(problem, "ns/"+name) {
				t.Errorf("%v, %q, want %q and the claim's name", devices, problem, c.want)
			}
		})
	}
	r.lifecycle.err = errors.New("the card does not answer")
	if _, problem := r.prepare(t, r.allocate(t, "broken", nil, result("a", "gpu-0"))); !strings.Contains(problem, "does not answer") {
		t.Errorf("the error is %q", problem)
	}
	if all := r.opts.Record.All(); len(all) > 0 || len(r.lifecycle.prepared) > 0 {
		t.Errorf("the record has %v, prepared are %v", all, r.lifecycle.prepared)
	}
}

// Verifies that a call to prepare a claim which comes after the call that ended it is refused, unless
// the claim is still allocated and reserved: then a further pod waits for it.
func TestClaimIsNotPreparedAfterItsUnprepare(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"))
	for name, c := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		want   string
	}{
		"not-allocated": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, "not allocated"},
		"replaced":      {func(c *resourceapi.ResourceClaim) { c.UID = "another" }, "replaced"},
		"no-pod":        {func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil }, "not reserved for any pod"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := r.allocate(t, name, nil, result("a", "gpu-0"))
			for range 2 {
				if _, problem := r.prepare(t, claim); problem != "" {
					t.Fatal(problem)
				}
				r.unprepare(t, claim)
			}
			r.change(t, name, c.change)
			devices, problem := r.prepare(t, claim)
			if len(devices) > 0 || !strings.Contains(problem, c.want) || !strings.Contains(problem, "ns/"+name) {
				t.Errorf("%v, %q, want %q and the claim's name", devices, problem, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Driver.prepare(ctx, claimOf("late"), false, 0); err == nil || !strings.Contains(err.Error(), "no longer waits") {
		t.Errorf("a call that kubelet gave up: %v", err)
	}
	if all := r.opts.Record.All(); len(all) > 0 {
		t.Errorf("the record has %v", all)
	}
}

// Verifies that a claim that was allocated again loses the devices of the earlier allocation before it
// gets those of the new one, that a claim stays in the record while its end is not on disk, and that
// one device is not both held and accessed by one claim.
func TestPrepareConflicts(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"), device("GPU-1"))
	c := r.allocate(t, "x", nil, result("a", "gpu-0"))
	if _, problem := r.prepare(t, c); problem != "" {
		t.Fatal(problem)
	}
	r.change(t, "x", func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{result("a", "gpu-1")}
	})
	r.lifecycle.endErr = errors.New("disk full")
	if devices, problem := r.prepare(t, c); !strings.Contains(problem, "earlier allocation: disk full") {
		t.Errorf("allocated again, with a full disk: %v, %q", devices, problem)
	}
	response, err := drapbv1.NewDRAPluginClient(r.kubelet).NodeUnprepareResources(t.Context(), &drapbv1.NodeUnprepareResourcesRequest{Claims: []*drapbv1.Claim{c}})
	if err != nil || !strings.Contains(response.GetClaims()[c.GetUid()].GetError(), "disk full") || r.opts.Record.Get(driverName, "uid-x") == nil {
		t.Errorf("unprepare with a full disk: %v, %v", response, err)
	}
	r.lifecycle.endErr, r.lifecycle.ended = nil, nil
	if devices, problem := r.prepare(t, c); problem != "" || len(devices) != 1 || !strings.Contains(devices[0], "gpu-1") || len(r.lifecycle.ended) != 1 {
		t.Errorf("allocated again: %v, %q, ended are %v", devices, problem, r.lifecycle.ended)
	}
	admin := result("b", "gpu-0")
	admin.AdminAccess = new(true)
	if _, problem := r.prepare(t, r.allocate(t, "both", nil, admin, result("a", "gpu-0"))); !strings.Contains(problem, "admin access") {
		t.Errorf("held and accessed: %q", problem)
	}
}

// Verifies that admin access and a toleration let a claim have an unhealthy device, and that the end of
// a claim ends its admin access.
func TestPrepareUnhealthy(t *testing.T) {
	r := newRig(t)
	r.publish(t, unhealthy("GPU-1"))
	tolerating, other, admin := result("a", "gpu-1"), result("a", "gpu-1"), result("a", "gpu-1")
	tolerating.Tolerations = []resourceapi.DeviceToleration{{Key: pool.TaintKey, Operator: resourceapi.DeviceTolerationOpEqual, Value: "hot"}}
	other.Tolerations = []resourceapi.DeviceToleration{{Key: pool.TaintKey, Operator: resourceapi.DeviceTolerationOpEqual, Value: "cold"}}
	admin.AdminAccess = new(true)
	for name, c := range map[string]struct {
		result resourceapi.DeviceRequestAllocationResult
		want   bool
	}{"tolerating": {tolerating, true}, "other": {other, false}, "admin": {admin, true}} {
		claim := r.allocate(t, name, nil, c.result)
		if _, problem := r.prepare(t, claim); (problem == "") != c.want {
			t.Errorf("%s: %q", name, problem)
		}
		r.lifecycle.undefined = nil
		if r.unprepare(t, claim); (len(r.lifecycle.undefined) == 1) != (name == "admin") {
			t.Errorf("%s: the end removed the definitions of %v", name, r.lifecycle.undefined)
		}
	}
}

// Verifies that admin access to a device that does not exist yet is refused with the reason, unless its backend has
// something to access, such as the node of the GPU of which it would be made; and that other claims get it.
func TestAdminAccessToAPotentialDevice(t *testing.T) {
	r := newRig(t)
	without, with := device("GPU-0"), device("GPU-1")
	without.Potential, with.Potential = true, true
	with.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/gpu1"}}
	r.publish(t, without, with)
	for name, c := range map[string]struct {
		device string
		admin  bool
		want   string
	}{
		"nothing": {"gpu-0", true, "device gpu-0 does not exist before a claim without admin access has it"},
		"a node":  {"gpu-1", true, ""},
		"made":    {"gpu-0", false, ""},
	} {
		one := result("a", c.device)
		one.AdminAccess = new(c.admin)
		if _, problem := r.prepare(t, r.allocate(t, strings.ReplaceAll(name, " ", "-"), nil, one)); problem == "" && c.want != "" || !strings.Contains(problem, c.want) {
			t.Errorf("%s: %q, want %q", name, problem, c.want)
		}
	}
}

// Verifies that parameters of the class come before those of the claim, and reach only their
// requests.
func TestParameters(t *testing.T) {
	configuration := func(source resourceapi.AllocationConfigSource, text string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests, DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driverName, Parameters: runtime.RawExtension{
				Raw: fmt.Appendf(nil, `{"apiVersion":"accelmux.io/v1alpha1","kind":"DeviceParameters","parameters":%s}`, text),
			}},
		}}
	}
	foreign := configuration(resourceapi.AllocationConfigSourceClaim, `{"x":1}`)
	foreign.Opaque.Driver = "other.example.com"
	all := []resourceapi.DeviceAllocationConfiguration{
		configuration(resourceapi.AllocationConfigSourceClaim, `{"mode":"fast"}`, "a"),
		configuration(resourceapi.AllocationConfigSourceClass, `{"mode":"slow","level":1}`),
		configuration(resourceapi.AllocationConfigSourceClaim, `{"level":3}`, "b/second"),
		foreign,
	}
	for request, want := range map[string]string{"a": `{"level":1,"mode":"fast"}`, "a/x": `{"level":1,"mode":"fast"}`, "b/first": `{"level":1,"mode":"slow"}`, "b/second": `{"level":3,"mode":"slow"}`} {
		got, err := parametersFor(t.Context(), driverName, request, all, nil, mock.Description)
		if err != nil || string(got) != want {
			t.Errorf("request %s: %s, %v, want %s", request, got, err, want)
		}
	}
	if got, err := parametersFor(t.Context(), driverName, "a", nil, nil, mock.Description); got != nil || err != nil {
		t.Errorf("without parameters: %s, %v", got, err)
	}
}

// Verifies that the devices are published, that slices which kubelet deletes at its start are back
// long before the 30 s after which the library alone would publish them, and that a fault becomes a
// taint.
func TestPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(t, device("GPU-0"), device("GPU-1"))
	published := func(what, devices string) {
		t.Helper()
		r.cluster.want(t, what, driverName+": "+devices)
	}
	published("at the start", "gpu-0 gpu-1")
	list, err := r.cluster.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if err := r.cluster.ResourceV1().ResourceSlices().Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	published("after kubelet's start", "gpu-0 gpu-1")
	r.publish(t, device("GPU-0"), unhealthy("GPU-1"))
	published("with a fault", "gpu-0 gpu-1(hot)")
}

// Verifies that kubelet learns the health of all devices, and a change of one at once.
func TestHealth(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"))
	stream, err := drahealthv1.NewDRAResourceHealthClient(r.kubelet).NodeWatchResources(t.Context(), &drahealthv1.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []drahealthv1.HealthStatus{drahealthv1.HealthStatus_HEALTHY, drahealthv1.HealthStatus_UNHEALTHY, drahealthv1.HealthStatus_HEALTHY} {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		d := response.GetDevices()
		if len(d) != 1 || d[0].GetDevice().GetDeviceName() != "gpu-0" || d[0].GetDevice().GetPoolName() != node || d[0].GetHealth() != want {
			t.Fatalf("the health is %v, want %v", d, want)
		}
		if want == drahealthv1.HealthStatus_HEALTHY {
			r.publish(t, unhealthy("GPU-0"))
		} else {
			r.publish(t, device("GPU-0"))
		}
	}
}

// Verifies that kubelet, whose gRPC client refuses more than 4 MiB, gets the health of as many devices
// as a backend may have when all are unhealthy with long messages.
func TestHealthOfManyDevices(t *testing.T) {
	const count = 4096
	r := newRig(t)
	devices := make([]resource.Device, count)
	for i := range devices {
		devices[i] = unhealthy(fmt.Sprintf("GPU-%d", i))
		devices[i].Verdict.Faults[0].Message = strings.Repeat("é", 1000)
	}
	r.publish(t, devices...)
	stream, err := drahealthv1.NewDRAResourceHealthClient(r.kubelet).NodeWatchResources(t.Context(), &drahealthv1.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil || len(response.GetDevices()) != count {
		t.Fatalf("the health of %d devices, %v", len(response.GetDevices()), err)
	}
	for _, d := range response.GetDevices() {
		if d.GetHealth() != drahealthv1.HealthStatus_UNHEALTHY || len(d.GetMessage()) < 900 {
			t.Fatalf("the health of %s is %v, with a message of %d bytes", d.GetDevice().GetDeviceName(), d.GetHealth(), len(d.GetMessage()))
		}
	}
}

// Verifies that an unprepare which kubelet gave up ends nothing, and that a claim for a backend that
// has not reported is refused with that reason.
func TestTooLateTooEarly(t *testing.T) {
	r := newRig(t)
	r.publish(t, device("GPU-0"))
	c := r.allocate(t, "x", nil, result("a", "gpu-0"))
	if _, problem := r.prepare(t, c); problem != "" {
		t.Fatal(problem)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Driver.unprepare(late, "uid-x"); err == nil || r.opts.Record.Get(driverName, "uid-x") == nil {
		t.Errorf("a late unprepare: %v; the claim is in the record: %v", err, r.opts.Record.Get(driverName, "uid-x"))
	}
	r.Publish(Publication{Backend: mock})
	if _, problem := r.prepare(t, r.allocate(t, "y", nil, result("a", "gpu-1"))); !strings.Contains(problem, "has not reported") {
		t.Errorf("the error is %q", problem)
	}
}

// Verifies that with the option Metadata a container gets a file with the attributes of its devices, also those with
// several values where the cluster has none of these, which an unprepare removes.
func TestMetadata(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.metadata = true
	r.restart(t)
	listed := device("GPU-0")
	listed.Attributes = inventory.ByName[inventory.Attribute]{{Name: "links", Value: inventory.Attribute{Value: []string{"left", "right"}}}}
	r.publish(t, listed, device("GPU-1"))
	c := r.allocate(t, "x", nil, result("a", "gpu-0"))
	r.cluster.want(t, "published", driverName+": gpu-0 gpu-1")
	devices, problem := r.prepare(t, c)
	const name = "mock.accelmux.io/metadata=uid-x_a"
	if problem != "" || len(devices) != 1 || !strings.Contains(devices[0], name) {
		t.Fatalf("the devices are %q, %s; want the CDI name %s", devices, problem, name)
	}
	file := filepath.Join(r.dir, "plugins", driverName, "dra-device-metadata", "ns_x", "a", "metadata.json")
	content, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(content), "accelmux.io/id") || !strings.Contains(string(content), "GPU-0") || !strings.Contains(string(content), `"right"`) {
		t.Errorf("the file has %s, %v", content, err)
	}
	r.unprepare(t, c)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the unprepare: %v", err)
	}
}
