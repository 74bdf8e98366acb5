package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Backend iota has a device of which claims have shares of the capacity memory. It is in a resource while iota's
// other devices are for claims.
const (
	sharesName    = "example.com/share"
	sharedDevice  = "s-0"
	sharedMemory  = 8
	sharedByClaim = "memory"
)

// claimAmount starts a pod with a claim for a share.
func (w *world) claimAmount(ctx context.Context, arg int) error {
	return w.startPod(ctx, &podClaim{shape: shape{count: 1, requests: 1, kept: arg%2 == 1, share: 1 + int64(arg/2%5)}})
}

// chooseShare gives the claim its share as the scheduler does, if the API server's claims leave enough, and reports
// whether it is surely free: no claim that was deleted while its pods run has some of it.
func (w *world) chooseShare(ctx context.Context, claim *podClaim, published map[string]resourceapi.Device) (certain bool, err error) {
	device, ok := published[sharedDevice]
	list, err := w.claims.api.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil || !ok || len(device.Taints) > 0 {
		return false, err
	}
	left := sharedMemory - claim.share
	for _, c := range list.Items {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if amount := r.ConsumedCapacity[sharedByClaim]; r.Device == device.Name {
				left -= amount.Value()
			}
		}
	}
	if left < 0 {
		return false, nil
	}
	claim.devices = []string{sharedDevice}
	left, certain = sharedMemory-claim.share, true
	var seen []*podClaim
	for _, p := range w.claims.all() {
		if p.claim != claim && !slices.Contains(seen, p.claim) {
			seen = append(seen, p.claim)
			left -= p.claim.share
			certain = certain && (p.claim.share == 0 || !p.claim.spoiled) // else it has all, for all that is known
		}
	}
	return certain && left >= 0, nil
}

// consume has a result of an allocation be a share.
func (c *podClaim) consume(r *resourceapi.DeviceRequestAllocationResult) {
	if c.share > 0 {
		r.ShareID = new(types.UID("share-" + c.UID))
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{sharedByClaim: *resource.NewQuantity(c.share, resource.DecimalSI)}
	}
}

// hasShare reports whether a definition has the amount of the claim.
func (c *podClaim) hasShare(definition string) bool {
	return c.share == 0 || strings.Contains(definition, fmt.Sprintf(`_MEMORY=%d"`, c.share))
}

// sharesOf are the shares that living pods have, by the UIDs of their claims.
func (w *world) sharesOf() map[string]int64 {
	all := map[string]int64{}
	for _, p := range w.claims.living() {
		if p.claim.prepared && p.claim.share > 0 {
			all[p.claim.UID] = p.claim.share
		}
	}
	return all
}

func sharesRight(o *observation) string {
	var sum int64
	for _, share := range o.Claims.Shares {
		sum += share
	}
	if sum > sharedMemory {
		return fmt.Sprintf("%s has %d, and claims with pods have %d of it: %v", sharedDevice, sharedMemory, sum, o.Claims.Shares)
	}
	return ""
}
