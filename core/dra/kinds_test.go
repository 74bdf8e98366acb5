package dra

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
)

// A class and a claim as users of kubernetes-sigs/dra-example-driver have them.
const (
	exampleDriver = "gpu.example.com"
	exampleClass  = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors:
    - cel: {expression: "device.driver == 'gpu.example.com'"}
  config:
    - opaque:
        driver: gpu.example.com
        parameters:
          apiVersion: gpu.resource.example.com/v1alpha1
          kind: GpuConfig
          sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Default}}
`
	exampleClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: ns, uid: uid-gpu}
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.example.com
          selectors:
            - cel: {expression: "device.attributes['gpu.example.com'].model == 'LATEST-GPU-MODEL' && device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('0.9.0')) && device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0"}
    config:
      - requests: [gpu]
        opaque:
          driver: gpu.example.com
          parameters:
            apiVersion: gpu.resource.example.com/v1alpha1
            kind: GpuConfig
            sharing: {timeSlicingConfig: {interval: Long}}
`
	exampleSchema = `{"type": "object", "properties": {"strategy": {"enum": ["TimeSlicing"]}, "interval": {"type": "string"}}}`
)

// Verifies that a class and a claim for the example driver work with a backend that has its name and
// attributes, if the configuration maps their kind, and that an unmapped kind or field, and a wrong
// value, are refused by name.
func TestClaimForAnotherDriver(t *testing.T) {
	whole := map[string]string{"sharing.strategy": "strategy", "sharing.timeSlicingConfig.interval": "interval"}
	for name, tc := range map[string]struct {
		fields map[string]string // nil: the kind is not mapped
		claim  string            // replaces "Long"
		noHook bool              // the device asks for no preparation
		want   string            // in the error
	}{
		"mapped":           {fields: whole},
		"kind not mapped":  {want: `apiVersion "gpu.resource.example.com/v1alpha1" and kind "GpuConfig": the driver accepts only DeviceParameters of accelmux.io/v1alpha1; dra.kinds`},
		"field not mapped": {fields: map[string]string{"sharing.strategy": "strategy"}, want: "the driver cannot apply the field sharing.timeSlicingConfig.interval of GpuConfig: it accepts sharing.strategy; dra.kinds"},
		"no field mapped":  {fields: map[string]string{}, want: "the field sharing.strategy of GpuConfig: it accepts none; dra.kinds"},
		"not a parameter":  {fields: map[string]string{"sharing.strategy": "strategy", "sharing.timeSlicingConfig.interval": "intervall"}, want: `the field sharing.timeSlicingConfig.interval of GpuConfig: the backend does not know the parameter intervall; did you mean "interval"?`},
		"wrong value":      {fields: whole, claim: "7", want: "interval: must be a text, is 7"},
		"name with a dot":  {fields: whole, claim: `Long}, "timeSlicingConfig.interval": {a: b`, want: `the field sharing."timeSlicingConfig.interval".a of GpuConfig`},
		"no hook":          {fields: whole, noHook: true, want: "the parameters for request gpu would have no effect: device gpu-0 asks for no preparation"},
		"an object":        {fields: whole, claim: "{a: b}", want: "the field sharing.timeSlicingConfig.interval.a of GpuConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer()
			f := frontend(t, server, t.TempDir())
			r := exampleRound(tc.fields, !tc.noHook)
			f.Publish(r)
			server.want(t, "published", exampleDriver+": gpu-0")
			claim := scheduled(t, server, tc.claim)
			f.mu.Lock()
			driver := f.drivers[exampleDriver].driver
			f.mu.Unlock()
			results, err := driver.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claim})
			if err != nil {
				t.Fatal(err)
			}
			err = results[claim.UID].Err
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "claim ns/gpu: the parameters") {
					t.Errorf("the error is %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(f.opts.Lifecycle.(*fakeLifecycle).prepared[0].Devices[0].Parameters); got != `{"interval":"Long","strategy":"TimeSlicing"}` {
				t.Errorf("the parameters are %s", got)
			}
		})
	}
}

// exampleRound is a round with a GPU of a backend that has the example driver's name.
func exampleRound(fields map[string]string, hook bool) *round.Round {
	gpu := device("GPU-0")
	gpu.Attributes = inventory.Named(map[string]inventory.Attribute{
		"model": {Value: "LATEST-GPU-MODEL"}, "driverVersion": {Value: inventory.Version("1.0.0")},
	})
	gpu.Hooks.Prepare = hook
	gpu.Capacities = inventory.Named(map[string]int64{"memory": 80 << 30})
	r := roundOf([]config.API{config.APIDRA}, []resource.Device{gpu})
	r.Profile.Backends[0].DRA = config.DRA{Driver: exampleDriver}
	if fields != nil {
		r.Profile.Backends[0].DRA.Kinds = []config.OpaqueKind{{APIVersion: "gpu.resource.example.com/v1alpha1", Kind: "GpuConfig", Fields: fields}}
	}
	r.Snapshot.Backends[0].Description = inventory.Description{
		Prepare: true, Parameters: []inventory.Parameter{{Name: "strategy"}, {Name: "interval"}}, ParametersSchema: exampleSchema,
	}
	return r
}

// scheduled does what the scheduler does: it returns the claim, in which interval replaces "Long", with
// the published device, which all selectors must match.
func scheduled(t *testing.T, server *apiServer, interval string) *resourceapi.ResourceClaim {
	t.Helper()
	var class resourceapi.DeviceClass
	var claim resourceapi.ResourceClaim
	text := exampleClaim
	if interval != "" {
		text = strings.Replace(text, "Long", interval, 1)
	}
	for manifest, into := range map[string]any{exampleClass: &class, text: &claim} {
		if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
			t.Fatal(err)
		}
	}
	list, err := server.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice := list.Items[0].Spec
	d := slice.Devices[0]
	request := claim.Spec.Devices.Requests[0]
	for _, s := range append(class.Spec.Selectors, request.Exactly.Selectors...) {
		compiled := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(s.CEL.Expression, dracel.Options{})
		if compiled.Error != nil {
			t.Fatal(compiled.Error)
		}
		if ok, _, err := compiled.DeviceMatches(t.Context(), dracel.Device{Driver: slice.Driver, Attributes: d.Attributes, Capacity: d.Capacity}); !ok || err != nil {
			t.Fatalf("the selector %s does not match: %v", s.CEL.Expression, err)
		}
	}
	var all []resourceapi.DeviceAllocationConfiguration
	for _, c := range class.Spec.Config {
		all = append(all, resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClass, Requests: []string{request.Name}, DeviceConfiguration: c.DeviceConfiguration})
	}
	for _, c := range claim.Spec.Devices.Config {
		all = append(all, resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration})
	}
	claim.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: request.Name, Driver: slice.Driver, Pool: slice.Pool.Name, Device: d.Name}},
			Config:  all,
		}},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: types.UID("pod")}},
	}
	return &claim
}
