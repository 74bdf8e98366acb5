package realkubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// NewClaim makes a claim for so many devices of a class, with one request, r.
func NewClaim(name, class string, count int64) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, Count: count},
		}}}},
	}
}

// CreatePod creates a pod on the Node, with one container, c, that uses these claims. The claims must
// exist; a claim's name in the pod is that of its object.
func (c *Cluster) CreatePod(ctx context.Context, name string, claims ...string) (*v1.Pod, error) {
	pod := NewPod(name, nil)
	pod.Spec.NodeName = NodeName
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		pod.Spec.Containers[0].Resources.Claims = append(pod.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: claim})
	}
	return c.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// CreateExtendedPod creates a pod on the Node, with one container, c, that asks for one unit of an
// extended resource, and the claim that the scheduler makes for that, of a device of a class. It returns
// both.
func (c *Cluster) CreateExtendedPod(ctx context.Context, name, resource, class string) (*v1.Pod, *resourceapi.ResourceClaim, error) {
	claim := NewClaim(name+"-extended-resources", class, 1)
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	claim, err := c.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	pod := NewPod(name, map[string]int64{resource: 1})
	pod.Spec.NodeName = NodeName
	if pod, err = c.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		ResourceClaimName: claim.Name,
		RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: resource, RequestName: "r"}},
	}
	pod, err = c.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return pod, claim, err
}

// claimsOf are the names of a pod's claims.
func claimsOf(pod *v1.Pod) []string {
	var names []string
	for _, p := range pod.Spec.ResourceClaims {
		names = append(names, *p.ResourceClaimName)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// DeletePod takes a pod off the API server, and its reservations, as the control plane does; a claim
// that no pod has reserved is not allocated any more. The kubelet has nothing to do with it.
func (c *Cluster) DeletePod(ctx context.Context, pod *v1.Pod) error {
	for _, name := range claimsOf(pod) {
		api := c.ResourceV1().ResourceClaims(pod.Namespace)
		claim, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var others []resourceapi.ResourceClaimConsumerReference
		for _, r := range claim.Status.ReservedFor {
			if r.UID != pod.UID {
				others = append(others, r)
			}
		}
		if claim.Status.ReservedFor = others; len(others) == 0 {
			claim.Status.Allocation = nil
		}
		if _, err := api.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return c.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// PrepareClaims prepares the claims of a pod that is on the node, once; kubelet tries again until it
// succeeds.
func (k *Kubelet) PrepareClaims(ctx context.Context, pod *v1.Pod) error {
	return k.call(ctx, "PrepareClaims", string(pod.UID), &wire.Nothing{})
}

// UnprepareClaims unprepares those claims of a pod on the node that no other pod there uses, once;
// kubelet tries again until it succeeds, and then removes the pod.
func (k *Kubelet) UnprepareClaims(ctx context.Context, pod *v1.Pod) error {
	return k.call(ctx, "UnprepareClaims", string(pod.UID), &wire.Nothing{})
}

// Names are the CDI names in a container's options.
func Names(opts *ContainerOptions) []string {
	var names []string
	for _, d := range opts.CDIDevices {
		names = append(names, d.Name)
	}
	return names
}

// Allocated are the names of the devices of a claim; none if it is not allocated.
func (c *Cluster) Allocated(ctx context.Context, claim *resourceapi.ResourceClaim) ([]string, error) {
	now, err := c.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", claim.Name, err)
	}
	var names []string
	if now.Status.Allocation != nil {
		for _, d := range now.Status.Allocation.Devices.Results {
			names = append(names, d.Device)
		}
	}
	return names, nil
}
