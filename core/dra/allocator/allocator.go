// Package allocator predicts which devices of a node the scheduler gives to a claim, by the code that
// the scheduler has for that. It asks no API server, and allocates nothing.
package allocator

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// features are those of Kubernetes 1.37 by default.
var features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
	PartitionableDevices: true, PrioritizedList: true,
}

// selectors are the compiled ones. More are compiled again. The agent needs none when it starts.
var selectors = sync.OnceValue(func() *cel.Cache {
	return cel.NewCache(64, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity})
})

// Node is a node for the scheduler.
type Node struct {
	Name   string
	Slices []*resourceapi.ResourceSlice
	// Classes are the device classes, by name.
	Classes map[string]*resourceapi.DeviceClass
	// Allocated are the devices that claims have. Taken is what claims have of the capacities of devices that they
	// share; nil for nothing.
	Allocated []structured.DeviceID
	Taken     structured.ConsumedCapacityCollection
}

// Claim is a claim, or what a template makes one of.
type Claim struct {
	Name string
	Spec resourceapi.ResourceClaimSpec
}

// Allocate returns the devices that a claim gets; nil if the node does not have them. The error is for
// a claim or a class that the scheduler refuses, whatever the node has.
func (n *Node) Allocate(ctx context.Context, c Claim) ([]resourceapi.DeviceRequestAllocationResult, error) {
	results, err := n.AllocateAll(ctx, []Claim{c})
	if err != nil || len(results) == 0 {
		return nil, err
	}
	return results[0].Devices.Results, nil
}

// AllocateAll returns an allocation for each of a pod's claims; nil if the node does not have the
// devices for all of them. The error is that of Allocate.
func (n *Node) AllocateAll(ctx context.Context, pending []Claim) ([]resourceapi.AllocationResult, error) {
	a, err := structured.NewAllocator(ctx, features, structured.AllocatedState{
		AllocatedDevices: sets.New(n.Allocated...), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: n.Taken.Clone(),
	}, classes(n.Classes), n.Slices, selectors())
	if err != nil {
		return nil, err
	}
	claims := make([]*resourceapi.ResourceClaim, len(pending))
	for i, c := range pending {
		claims[i] = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec}
	}
	return a.Allocate(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, claims)
}

// classes implements structured.DeviceClassLister.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() (all []*resourceapi.DeviceClass, err error) {
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("there is no DeviceClass %s", name)
}
