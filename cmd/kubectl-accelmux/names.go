package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/status/listing"
)

// names are the pods and claims that the user may list.
type names struct {
	pods, claims map[string]types.NamespacedName // by hash
	// allocated are the claims that have a device of a driver's pool.
	allocated map[pooled][]*resourceapi.ResourceClaim
	// claimPods are the pods of each claim.
	claimPods map[types.NamespacedName][]string
}

// pooled is a device of a ResourceSlice.
type pooled struct{ driver, pool, device string }

// readNames lists pods and claims: those of all namespaces or, if the user may not, of the user's own.
func (c *cluster) readNames(ctx context.Context) (*names, error) {
	n := &names{
		pods: map[string]types.NamespacedName{}, claims: map[string]types.NamespacedName{},
		allocated: map[pooled][]*resourceapi.ResourceClaim{}, claimPods: map[types.NamespacedName][]string{},
	}
	pods, err := allowed(c.namespace, func(namespace string) (*corev1.PodList, error) {
		return c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for _, pod := range pods.Items {
		n.pods[listing.Hash("pod", pod.Namespace, pod.Name)] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
	claims, err := allowed(c.namespace, func(namespace string) (*resourceapi.ResourceClaimList, error) {
		return c.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	})
	switch {
	case apierrors.IsNotFound(err): // a cluster without dynamic resource allocation
		return n, nil
	case err != nil:
		return nil, fmt.Errorf("list resourceclaims: %w", err)
	}
	for i := range claims.Items {
		n.addClaim(&claims.Items[i])
	}
	return n, nil
}

func (n *names) addClaim(claim *resourceapi.ResourceClaim) {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	n.claims[listing.Hash("claim", claim.Namespace, claim.Name)] = name
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.Resource == "pods" {
			n.claimPods[name] = append(n.claimPods[name], consumer.Name)
		}
	}
	if claim.Status.Allocation == nil {
		return
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		at := pooled{r.Driver, r.Pool, r.Device}
		n.allocated[at] = append(n.allocated[at], claim)
	}
}

// allowed lists in all namespaces or, if that is forbidden, in the user's own.
func allowed[T any](namespace string, list func(namespace string) (T, error)) (T, error) {
	all, err := list(metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		return list(namespace)
	}
	return all, err
}

// name puts names in the place of hashes, where the user may list them.
func (n *names) name(holders []listing.Holder) {
	for i := range holders {
		h := &holders[i]
		if pod, ok := n.pods[h.PodHash]; ok {
			h.Namespace, h.Pod, h.PodHash = pod.Namespace, pod.Name, ""
		}
		if claim, ok := n.claims[h.ClaimHash]; ok {
			h.Namespace, h.Claim, h.ClaimHash = claim.Namespace, claim.Name, ""
		}
	}
}

// holdersOf returns the claims that have a device of a slice, and their pods.
func (n *names) holdersOf(at pooled) (holders []listing.Holder) {
	for _, claim := range n.allocated[at] {
		h := listing.Holder{Namespace: claim.Namespace, Claim: claim.Name}
		pods := n.claimPods[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
		if len(pods) == 0 {
			holders = append(holders, h)
		}
		for _, pod := range pods {
			h.Pod = pod
			holders = append(holders, h)
		}
	}
	return holders
}
