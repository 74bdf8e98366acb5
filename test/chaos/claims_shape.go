package main

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// podClaim is a claim from an allocation to the next. Nobody changes what follows allocated but the steps.
type podClaim struct {
	kubelettest.Claim
	shape
	// devices are the IDs of those that it holds, admin of those to which it has admin access.
	devices, admin []string

	// prepared: kubelet had an answer. failed: an attempt to prepare it failed. lost: the API server does
	// not have it any more.
	prepared, failed, lost bool
	// damaged: the agent cannot read what it knows of it; excused: the definitions are gone since.
	damaged, excused bool
	// spoiled: it was damaged at some time. Whether the agent was called to prepare it since is kubelet's affair.
	spoiled bool
}

// shape is what a claim asks for.
type shape struct {
	// count is how many devices, requests among how many requests, 1 or 2, they are divided.
	count, requests int
	// parameters are an index in parameterSets.
	parameters int
	// admins: one more device, which others may have, with admin access.
	admins bool
	// kept: it outlives its pods.
	kept bool
	// profile is that of the partition which it asks for instead of devices; "" for none.
	profile string
	// share is how much of the shared device it asks for instead of devices; 0 for none.
	share int64
}

// newShape is the shape that an arg means: 0 is of one device, and nothing else.
func newShape(arg int) shape {
	next := func(n int) int {
		was := arg % n
		arg /= n
		return was
	}
	return shape{
		count: 1 + next(3), requests: 1 + next(2), parameters: max(0, next(2*len(parameterSets))-len(parameterSets)),
		admins: next(4) == 3, kept: next(2) == 1,
	}
}

// adminRequest is the request with admin access.
const adminRequest = "admin"

func requestName(i int) string { return fmt.Sprintf("r%d", i) }

// parameterSet are opaque parameters of a claim and its class.
type parameterSet struct {
	// class and claim are for all requests, own is the claim's for request r0; "" for none.
	class, claim, own string
	// refused: the driver cannot accept them.
	refused bool
}

// parameterSets are all that a claim may have; the first one is none.
var parameterSets = []parameterSet{
	{},
	{claim: ownKind(`{"message": "claim"}`)},
	{class: ownKind(`{"message": "class"}`), own: ownKind(`{"message": "own"}`)},
	{claim: ownKind(`{"colour": "blue"}`), refused: true},
	{class: ownKind(`{"message": "class"}`), own: ownKind(`{"message": 1}`), refused: true},
	{claim: `{"apiVersion": "example.com/v1", "kind": "Config", "message": "claim"}`, refused: true},
}

func ownKind(parameters string) string {
	return `{"apiVersion": "accelmux.io/v1alpha1", "kind": "DeviceParameters", "parameters": ` + parameters + `}`
}

// message is the one that the containers find for a request; "" for none.
func (s *shape) message(request string) string {
	switch set := parameterSets[s.parameters]; {
	case request == adminRequest:
		return "" // nothing is prepared
	case request == requestName(0) && set.own != "":
		return "own"
	case set.claim != "":
		return "claim"
	case set.class != "":
		return "class"
	}
	return ""
}

// configuration is what the scheduler adds to an allocation.
func (s *shape) configuration() []resourceapi.DeviceAllocationConfiguration {
	var all []resourceapi.DeviceAllocationConfiguration
	add := func(source resourceapi.AllocationConfigSource, raw string, requests ...string) {
		if raw != "" {
			c := resourceapi.DeviceAllocationConfiguration{Source: source, Requests: requests}
			c.Opaque = &resourceapi.OpaqueDeviceConfiguration{Driver: claimDriver, Parameters: runtime.RawExtension{Raw: []byte(raw)}}
			all = append(all, c)
		}
	}
	set := parameterSets[s.parameters]
	add(resourceapi.AllocationConfigSourceClass, set.class)
	add(resourceapi.AllocationConfigSourceClaim, set.claim)
	add(resourceapi.AllocationConfigSourceClaim, set.own, requestName(0))
	return all
}

// spec is that of the claim's object.
func (s *shape) spec() resourceapi.ResourceClaimSpec {
	var spec resourceapi.ResourceClaimSpec
	add := func(name string, count int, admin *bool) {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "chaos", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(count), AdminAccess: admin}
		spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: exactly})
	}
	for i := range s.requests {
		add(requestName(i), cmp.Or((s.count+s.requests-1-i)/s.requests, 1), nil)
	}
	if s.admins {
		add(adminRequest, 1, new(true))
	}
	return spec
}

// refused reports whether the claim must not be prepared, because of its parameters.
func (c *podClaim) refused() bool {
	set := parameterSets[c.parameters]
	return set.refused && (set.claim != "" || len(c.devices) > 0)
}

// request is the name of the request of one of the claim's devices.
func (c *podClaim) request(id string) string {
	if i := slices.Index(c.devices, id); i >= 0 {
		return requestName(i % c.requests)
	}
	return adminRequest
}

// all are the devices that its containers get.
func (c *podClaim) all() []string { return slices.Concat(c.devices, c.admin) }

// cdiName is the name of the definition of one of its devices.
func (c *podClaim) cdiName(id string) string { return "iota.accelmux.io/holder=" + id + "::" + c.UID }
