package realkubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/accelmux/accelmux/core/dra/allocator"
)

// Schedule does for a pod what the scheduler does when it binds it to the Node: it allocates its
// claims, by the scheduler's own allocator with the features of Kubernetes 1.37 (a server of an older
// release has dropped the fields that they are about), and reserves them for the pod.
func (c *Cluster) Schedule(ctx context.Context, pod *v1.Pod) error {
	api := c.ResourceV1().ResourceClaims(pod.Namespace)
	var claims, pending []*resourceapi.ResourceClaim
	for _, name := range claimsOf(pod) {
		claim, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		claims = append(claims, claim)
		if claim.Status.Allocation == nil {
			pending = append(pending, claim)
		}
	}
	results, err := c.allocate(ctx, pending)
	if err != nil {
		return err
	}
	if len(results) != len(pending) {
		return fmt.Errorf("pod %s: the devices that are published and free do not satisfy its claims", pod.Name)
	}
	for i, claim := range pending {
		claim.Status.Allocation = &results[i]
	}
	for _, claim := range claims {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: pod.Name, UID: pod.UID,
		})
		if _, err := api.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// allocate returns an allocation for each claim, or none.
func (c *Cluster) allocate(ctx context.Context, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	node := allocator.Node{Name: NodeName, Classes: map[string]*resourceapi.DeviceClass{}}
	var err error
	if node.Slices, err = c.Slices(ctx); err != nil {
		return nil, err
	}
	if node.Allocated, err = c.allocated(ctx); err != nil {
		return nil, err
	}
	classes, err := c.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range classes.Items {
		node.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	pending := make([]allocator.Claim, len(claims))
	for i, claim := range claims {
		pending[i] = allocator.Claim{Name: claim.Name, Spec: claim.Spec}
	}
	return node.AllocateAll(ctx, pending)
}

// allocated are the devices of all claims that are allocated, but for admin access.
func (c *Cluster) allocated(ctx context.Context) (devices []structured.DeviceID, err error) {
	claims, err := c.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range claims.Items {
		if claims.Items[i].Status.Allocation == nil {
			continue
		}
		for _, d := range claims.Items[i].Status.Allocation.Devices.Results {
			if d.AdminAccess == nil || !*d.AdminAccess {
				devices = append(devices, structured.MakeDeviceID(d.Driver, d.Pool, d.Device))
			}
		}
	}
	return devices, nil
}

// Slices are those that drivers have published.
func (c *Cluster) Slices(ctx context.Context) ([]*resourceapi.ResourceSlice, error) {
	list, err := c.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices := make([]*resourceapi.ResourceSlice, len(list.Items))
	for i := range list.Items {
		slices[i] = &list.Items[i]
	}
	return slices, nil
}

// Devices are those of a driver that are published, by name.
func (c *Cluster) Devices(ctx context.Context, driver string) (map[string]resourceapi.Device, error) {
	slices, err := c.Slices(ctx)
	if err != nil {
		return nil, err
	}
	devices := map[string]resourceapi.Device{}
	for _, s := range slices {
		if s.Spec.Driver == driver {
			for _, d := range s.Spec.Devices {
				devices[d.Name] = d
			}
		}
	}
	return devices, nil
}
