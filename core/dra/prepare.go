package dra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/accelmux/accelmux/core/dra/claim"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/lifecycle"
)

// PrepareResourceClaims implements kubeletplugin.DRAPlugin. A claim that is prepared already gets
// the same answer.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		prepared, err := d.prepare(ctx, c)
		if err != nil {
			err = fmt.Errorf("claim %s/%s: %w", c.Namespace, c.Name, err)
			d.log.Warn("a claim was not prepared", "claim", c.Namespace+"/"+c.Name, "error", err)
			results[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: answer(prepared)}
	}
	return results, nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin. A claim that is not prepared is no
// error.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		results[c.UID] = d.unprepare(c.UID)
		if err := results[c.UID]; err != nil {
			d.log.Warn("a claim was not unprepared", "claim", c.Namespace+"/"+c.Name, "error", err)
		}
	}
	return results, nil
}

// unprepare ends a claim. The record is changed last: after a crash in between, the claim is
// prepared, and kubelet calls again.
func (d *Driver) unprepare(u types.UID) error {
	d.opts.Lifecycle.EndClaim(string(u))
	return d.opts.Record.Remove(d.opts.Name, u)
}

// prepare prepares a claim, unless that is done.
func (d *Driver) prepare(ctx context.Context, c *resourceapi.ResourceClaim) (*claim.Claim, error) {
	if prepared := d.opts.Record.Get(d.opts.Name, c.UID); prepared != nil && prepared.BootID == d.opts.BootID {
		return prepared, nil
	}
	if c.DeletionTimestamp != nil && len(c.Status.ReservedFor) == 0 {
		return nil, errors.New("it is being deleted")
	}
	if len(c.Status.ReservedFor) == 0 {
		return nil, errors.New("it is reserved for no pod; the pod that it was prepared for is gone")
	}
	request, err := d.request(ctx, c)
	if err != nil {
		return nil, err
	}
	definitions, err := d.opts.Lifecycle.PrepareClaim(ctx, request.ClaimRequest)
	if err != nil {
		return nil, err
	}
	prepared := &claim.Claim{Driver: d.opts.Name, UID: c.UID, Namespace: c.Namespace, Name: c.Name, BootID: d.opts.BootID}
	for i, result := range request.results {
		device := request.Devices[request.device[i]]
		definition := definitions[request.device[i]]
		prepared.Devices = append(prepared.Devices, claim.Device{
			Request: result.Request, Pool: result.Pool, Name: result.Device, Backend: device.Device.Backend, ID: device.Device.ID,
			Share: share(result), Admin: device.Admin, CDI: definition.Name,
			Parameters: device.Parameters, Edits: json.RawMessage(definition.Content),
		})
	}
	if err := d.opts.Record.Put(prepared); err != nil {
		d.opts.Lifecycle.EndClaim(string(c.UID))
		return nil, err
	}
	return prepared, nil
}

// request is what a claim is to get, with the allocation's results for this driver, each with the
// place of its device in Devices.
type request struct {
	lifecycle.ClaimRequest
	results []resourceapi.DeviceRequestAllocationResult
	device  []int
}

// request returns what the claim is to get of this driver.
func (d *Driver) request(ctx context.Context, c *resourceapi.ResourceClaim) (*request, error) {
	r := &request{ClaimRequest: lifecycle.ClaimRequest{
		Claim: holders.Claim{UID: string(c.UID), Namespace: c.Namespace, Name: c.Name}, Driver: d.opts.Name,
	}}
	places := map[string]int{}
	for _, result := range c.Status.Allocation.Devices.Results {
		if result.Driver != d.opts.Name {
			continue
		}
		device, err := d.allocated(result)
		if err != nil {
			return nil, err
		}
		if device.Parameters, err = parametersFor(ctx, d.opts.Name, result.Request, c.Status.Allocation.Devices.Config, d.opts.Description()); err != nil {
			return nil, err
		}
		place, ok := places[result.Device]
		if !ok {
			place = len(r.Devices)
			places[result.Device] = place
			r.Devices = append(r.Devices, device)
		} else if string(r.Devices[place].Parameters) != string(device.Parameters) {
			return nil, fmt.Errorf("its requests %s and %s have shares of device %s with different parameters", r.Devices[place].Request, result.Request, result.Device)
		}
		r.results, r.device = append(r.results, result), append(r.device, place)
	}
	if len(r.results) == 0 {
		return nil, fmt.Errorf("it has no device of driver %s", d.opts.Name)
	}
	return r, nil
}

// allocated returns the device of a result of the allocation.
func (d *Driver) allocated(result resourceapi.DeviceRequestAllocationResult) (lifecycle.ClaimDevice, error) {
	if result.Pool != d.opts.NodeName {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s of pool %s is not of this node, %s", result.Device, result.Pool, d.opts.NodeName)
	}
	device, ok := d.device(result.Device)
	if !ok {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s is no longer there: delete the pod and create it again, so that it gets another device", result.Device)
	}
	admin := result.AdminAccess != nil && *result.AdminAccess
	if !device.Verdict.Healthy && !admin && !tolerated(result, device) {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s is unhealthy: %s: delete the pod and create it again, so that it gets another device",
			result.Device, device.Verdict.Faults[0].Message)
	}
	return lifecycle.ClaimDevice{Device: device.Device, Request: result.Request, Shared: result.ShareID != nil, Admin: admin}, nil
}

func share(result resourceapi.DeviceRequestAllocationResult) types.UID {
	if result.ShareID == nil {
		return ""
	}
	return *result.ShareID
}

// answer returns kubelet's answer for a claim that is prepared.
func answer(c *claim.Claim) []kubeletplugin.Device {
	devices := make([]kubeletplugin.Device, len(c.Devices))
	for i, device := range c.Devices {
		devices[i] = kubeletplugin.Device{
			Requests: []string{device.Request}, PoolName: device.Pool, DeviceName: device.Name, CDIDeviceIDs: []string{device.CDI},
		}
		if device.Share != "" {
			devices[i].ShareID = new(device.Share)
		}
	}
	return devices
}
