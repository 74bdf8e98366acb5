package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Claim is a ResourceClaim of a pod, as kubelet identifies it.
type Claim struct{ Namespace, Name, UID string }

// claimDevices are what a driver answered for a claim of a pod.
type claimDevices struct {
	claim   Claim
	driver  string
	devices []*drapb.Device
}

// registerDriver makes a DRA driver known, by the endpoint that it gave.
func (k *Kubelet) registerDriver(name, endpoint string, versions []string) error {
	if !slices.Contains(versions, drapb.DRAPluginService) {
		return fmt.Errorf("DRA driver %s supports %q, and not %s", name, versions, drapb.DRAPluginService)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drivers[name] = endpoint
	return nil
}

// forgetDriver forgets a driver whose socket is gone, unless another endpoint has its name.
func (k *Kubelet) forgetDriver(name, endpoint string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drivers[name] == endpoint {
		delete(k.drivers, name)
	}
}

// Drivers are the DRA drivers that are registered, sorted.
func (k *Kubelet) Drivers() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.drivers))
}

// PrepareClaim prepares a claim for a pod, once; kubelet tries again until it succeeds or the pod is
// deleted. From then on the pod has the devices for the pod-resources API.
func (k *Kubelet) PrepareClaim(ctx context.Context, pod, driver string, claim Claim) ([]*drapb.Device, error) {
	var devices []*drapb.Device
	err := k.callDriver(ctx, driver, func(ctx context.Context, api drapb.DRAPluginClient) error {
		r, err := api.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{claim.wire()}})
		if err != nil {
			return err
		}
		answer, ok := r.GetClaims()[claim.UID]
		switch {
		case !ok || len(r.GetClaims()) != 1:
			return fmt.Errorf("driver %s answered for %d claims, and not for claim %s alone", driver, len(r.GetClaims()), claim.UID)
		case answer.GetError() != "":
			return errors.New(answer.GetError())
		}
		devices = answer.GetDevices()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.claims[pod] = append(slices.DeleteFunc(k.claims[pod], func(c claimDevices) bool { return c.claim == claim && c.driver == driver }),
		claimDevices{claim, driver, devices})
	return devices, nil
}

// UnprepareClaim unprepares a claim, once; kubelet tries again until it succeeds, and then lets the last
// pod with the claim go.
func (k *Kubelet) UnprepareClaim(ctx context.Context, driver string, claim Claim) error {
	err := k.callDriver(ctx, driver, func(ctx context.Context, api drapb.DRAPluginClient) error {
		r, err := api.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{claim.wire()}})
		if err != nil {
			return err
		}
		answer, ok := r.GetClaims()[claim.UID]
		switch {
		case !ok:
			return fmt.Errorf("driver %s did not answer for claim %s", driver, claim.UID)
		case answer.GetError() != "":
			return errors.New(answer.GetError())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("unprepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// FreeClaims ends a pod with claims: the pod-resources API does not list it any more.
func (k *Kubelet) FreeClaims(pod string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.claims, pod)
}

// callDriver calls a driver, within kubelet's time limit.
func (k *Kubelet) callDriver(ctx context.Context, driver string, call func(context.Context, drapb.DRAPluginClient) error) error {
	k.mu.Lock()
	endpoint, process := k.drivers[driver], k.process
	k.mu.Unlock()
	if process == nil {
		return errors.New("kubelet is stopped")
	}
	if endpoint == "" {
		return fmt.Errorf("DRA driver %s is not registered", driver)
	}
	conn, err := newConn(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return call(ctx, drapb.NewDRAPluginClient(conn))
}

func (c Claim) wire() *drapb.Claim {
	return &drapb.Claim{Namespace: c.Namespace, Name: c.Name, Uid: c.UID}
}

// dynamicResources are a pod's claims in the pod-resources API; mu is held.
func (k *Kubelet) dynamicResources(pod string) []*podresourcesapi.DynamicResource {
	var all []*podresourcesapi.DynamicResource
	for _, c := range k.claims[pod] {
		one := &podresourcesapi.DynamicResource{ClaimName: c.claim.Name, ClaimNamespace: c.claim.Namespace}
		for _, d := range c.devices {
			var names []*podresourcesapi.CDIDevice
			for _, name := range d.GetCdiDeviceIds() {
				names = append(names, &podresourcesapi.CDIDevice{Name: name})
			}
			one.ClaimResources = append(one.ClaimResources, &podresourcesapi.ClaimResource{
				CdiDevices: names, DriverName: c.driver, PoolName: d.GetPoolName(), DeviceName: d.GetDeviceName(),
			})
		}
		all = append(all, one)
	}
	return all
}
