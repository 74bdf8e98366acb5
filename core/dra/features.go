package dra

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/accelmux/accelmux/core/dra/pool"
)

// probe finds the optional features that the API server has: it has the server check slices without
// storing them (dryRun=All), and looks at what is left of them. The server drops the fields of a
// feature that is off, and does not know those of later versions.
func probe(ctx context.Context, client kubernetes.Interface, driver, node string) (f pool.Features, err error) {
	device := resourceapi.Device{
		Name: "probe", AllowMultipleAllocations: new(true),
		BindsToNode: new(true), BindingConditions: []string{pool.ConditionPrepared}, BindingFailureConditions: []string{pool.ConditionFailed},
		Taints: []resourceapi.DeviceTaint{{Key: pool.TaintKey, Effect: resourceapi.DeviceTaintEffectNoSchedule}},
	}
	kept, err := check(ctx, client, driver, node, device)
	if err != nil {
		return f, err
	}
	f.Taints, f.Shares, f.Binding = len(kept.Taints) > 0, kept.AllowMultipleAllocations != nil, len(kept.BindingConditions) > 0
	// Counters are in a slice of their own, which this one only names. Kubernetes 1.34, where they are in
	// the slice of the devices, refuses that.
	device = resourceapi.Device{Name: "probe", ConsumesCounters: []resourceapi.DeviceCounterConsumption{
		{CounterSet: "probe", Counters: map[string]resourceapi.Counter{"probe": {Value: *resource.NewQuantity(1, resource.DecimalSI)}}},
	}}
	kept, err = check(ctx, client, driver, node, device)
	if err != nil && !apierrors.IsInvalid(err) {
		return f, err
	}
	f.Counters = len(kept.ConsumesCounters) > 0
	device = resourceapi.Device{Name: "probe", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"probe": {StringValues: []string{"a", "b"}},
	}}
	kept, err = check(ctx, client, driver, node, device)
	switch {
	case apierrors.IsInvalid(err): // an attribute without a value, as the server has it
		return f, nil
	case err != nil:
		return f, err
	}
	f.Lists = len(kept.Attributes["probe"].StringValues) == 2
	return f, nil
}

// check returns a device as the API server would store it.
func check(ctx context.Context, client kubernetes.Interface, driver, node string, device resourceapi.Device) (resourceapi.Device, error) {
	stored, err := client.ResourceV1().ResourceSlices().Create(ctx, &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "accelmux-probe"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: "probe", ResourceSliceCount: 1},
			Devices: []resourceapi.Device{device},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return resourceapi.Device{}, fmt.Errorf("the API server has no %s: dynamic resource allocation needs Kubernetes 1.34 or later: %w", resourceapi.SchemeGroupVersion, err)
	case err != nil:
		return resourceapi.Device{}, fmt.Errorf("find the features of the API server: %w", err)
	case len(stored.Spec.Devices) != 1:
		return resourceapi.Device{}, fmt.Errorf("find the features of the API server: it returned %d devices instead of 1", len(stored.Spec.Devices))
	}
	return stored.Spec.Devices[0], nil
}
