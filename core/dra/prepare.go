package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
)

// PrepareResourceClaims implements kubeletplugin.DRAPlugin. A claim that is prepared already gets
// the same answer.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		d.opts.Record.Called(d.id(c.UID))
		began := time.Now()
		prepared, err := d.prepareForKubelet(ctx, c)
		d.opts.Answered(CallPrepare, d.opts.Name, time.Since(began), err)
		if _, lost := errors.AsType[unusable](err); lost {
			err = fmt.Errorf("%w: delete the pod and create it again, so that it gets another device", err)
		}
		if err != nil {
			err = fmt.Errorf("claim %s/%s: %w", c.Namespace, c.Name, err)
			d.log.Warn("a claim was not prepared", "claim", c.Namespace+"/"+c.Name, "error", err)
			results[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: d.answer(prepared)}
	}
	return results, nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin. A claim that is not prepared is no
// error.
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		began := time.Now()
		results[c.UID] = d.unprepare(ctx, c.UID)
		if results[c.UID] == nil { // also where kubeletplugin does not, as the option Metadata is off now
			results[c.UID] = removeMetadata(d.opts.Record, d.opts.KubeletRootDir, d.opts.CDIDir, holders.Claim{Driver: d.opts.Name, UID: c.UID, Namespace: c.Namespace, Name: c.Name})
		}
		d.opts.Answered(CallUnprepare, d.opts.Name, time.Since(began), results[c.UID])
		if err := results[c.UID]; err != nil {
			d.log.Warn("a claim was not unprepared", "claim", c.Namespace+"/"+c.Name, "error", err)
			continue
		}
		d.opts.Record.Finish(d.id(c.UID))
	}
	return results, nil
}

// id returns that of a claim of this driver.
func (d *Driver) id(u types.UID) holders.ClaimID { return holders.ClaimID{Driver: d.opts.Name, UID: u} }

// unprepare ends a claim, unless kubelet has given up meanwhile: it may have given the claim to
// another pod since.
func (d *Driver) unprepare(ctx context.Context, u types.UID) error {
	if !d.abandon(u) {
		return nil
	}
	unlock, err := d.opts.Record.Lock(ctx, d.id(u))
	if err != nil {
		return err
	}
	defer unlock()
	if c := d.opts.Record.Get(d.opts.Name, u); c != nil && c.Unbound {
		return nil // kubelet means an earlier allocation; the Reconciler ends this one
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("kubelet no longer waits for it: %w", err)
	}
	return d.opts.Lifecycle.EndClaim(d.id(u))
}

// prepare prepares a claim, unless that is done. The claim is in the record before a backend does
// anything for it.
//
// The claim was read from the API server just before: it exists, has this UID and is allocated. Kubelet has
// checked that it is reserved for the pod that starts. unbound: kubelet has not asked, because the pod is to
// be bound when the claim is prepared. limit is how long a backend may take; 0: the usual limit, but a claim with
// a device that is slow to prepare is errSlow then.
func (d *Driver) prepare(ctx context.Context, c *resourceapi.ResourceClaim, unbound bool, limit time.Duration) (*holders.ClaimRecord, error) {
	unlock, err := d.opts.Record.Lock(ctx, d.id(c.UID))
	if err != nil {
		return nil, lifecycle.TemporaryError{Err: err}
	}
	defer unlock()
	if err := context.Cause(ctx); err != nil { // an unprepare may have come since
		return nil, fmt.Errorf("the caller no longer waits for it: %w", err)
	}
	before := d.opts.Record.Get(d.opts.Name, c.UID)
	// Kubelet has had an earlier allocation prepared, perhaps of the same devices, and has not unprepared it.
	earlier := unbound && before != nil && !before.Unbound && before.BootID == d.opts.BootID
	if earlier {
		if err := d.opts.Unused(ctx, before); err != nil {
			return nil, lifecycle.TemporaryError{Err: fmt.Errorf("its earlier allocation has not ended: %w", err)}
		}
	}
	if !earlier && before != nil && before.Prepared && before.BootID == d.opts.BootID && isAllocation(before, c) {
		if before.Unbound && !unbound {
			before.Unbound = false
			return before, d.opts.Record.Put(before)
		}
		return before, nil
	}
	if len(c.Status.ReservedFor) == 0 {
		return nil, errors.New("not reserved for any pod: the pod may have been deleted")
	}
	if earlier || before != nil && !isAllocation(before, c) {
		// The API server allocates again only when no pod has the claim any more.
		if err := d.opts.Lifecycle.EndClaim(d.id(c.UID)); err != nil {
			return nil, lifecycle.TemporaryError{Err: fmt.Errorf("end its earlier allocation: %w", err)}
		}
	}
	request, err := d.request(ctx, c)
	if err != nil {
		return nil, err
	}
	if limit == 0 && slices.ContainsFunc(request.Devices, func(r lifecycle.ClaimDevice) bool { return r.Device.SlowToPrepare && !r.Admin }) {
		return nil, errSlow
	}
	return d.prepareRequest(ctx, c, request, unbound, limit)
}

// prepareRequest prepares what a claim is to get. The caller has locked the claim.
func (d *Driver) prepareRequest(ctx context.Context, c *resourceapi.ResourceClaim, request *request, unbound bool, limit time.Duration) (*holders.ClaimRecord, error) {
	request.Record, request.Limit = d.recorded(c, request), limit
	request.Record.Unbound = unbound
	err := d.opts.Lifecycle.PrepareClaim(ctx, request.ClaimRequest)
	if _, again := errors.AsType[lifecycle.TemporaryError](err); again {
		return nil, lifecycle.TemporaryError{Err: d.explained(ctx, err)}
	}
	if err != nil {
		return nil, err
	}
	return request.Record, nil
}

// explained returns the error of a preparation, of a device that other claims have with what became of
// those: a caller may not find them any more.
func (d *Driver) explained(ctx context.Context, err error) error {
	var device inventory.Key
	var others []holders.Claim
	has := "it"
	if held, ok := errors.AsType[*holders.HeldError](err); ok && held.Claim != nil {
		device, others = held.Device, []holders.Claim{*held.Claim}
	} else if shares, ok := errors.AsType[*holders.SharesError](err); ok {
		device, others, has = shares.Device, shares.Claims, "a share of it"
	}
	for _, other := range others {
		if d.opts.Ended == nil {
			return err
		}
		if why := d.opts.Ended(ctx, other.ID()); why != "" {
			return fmt.Errorf("device %s: claim %s/%s has %s: %s, but kubelet has not unprepared it, and its containers may still run; "+
				"the device is free within about a minute after they have ended, and the start is tried again", device, other.Namespace, other.Name, has, why)
		}
	}
	return err
}

// recorded returns the claim as it is to be in the record, not prepared.
func (d *Driver) recorded(c *resourceapi.ResourceClaim, r *request) *holders.ClaimRecord {
	all := &holders.ClaimRecord{BootID: d.opts.BootID, Claim: holders.Claim{
		Driver: d.opts.Name, UID: c.UID, Namespace: c.Namespace, Name: c.Name, Extended: c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true",
	}}
	for i, result := range r.results {
		device := r.Devices[r.device[i]]
		all.Devices = append(all.Devices, holders.ClaimDevice{
			Request: result.Request, Pool: result.Pool, Name: result.Device, Backend: device.Device.Backend, ID: device.Device.ID,
			Share: share(result), Amounts: amounts(device.Device, result), Admin: device.Admin, CDI: cdi.ClaimName(device.Device.Key, string(c.UID)), Parameters: device.Parameters,
		})
	}
	return all
}

// isAllocation reports whether the record has the devices that are allocated to a claim now.
func isAllocation(recorded *holders.ClaimRecord, c *resourceapi.ResourceClaim) bool {
	if c.Status.Allocation == nil {
		return false
	}
	results := slices.DeleteFunc(slices.Clone(c.Status.Allocation.Devices.Results), func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver != recorded.Driver
	})
	return slices.EqualFunc(recorded.Devices, results, func(p holders.ClaimDevice, r resourceapi.DeviceRequestAllocationResult) bool {
		return p.Request == r.Request && p.Pool == r.Pool && p.Name == r.Device && p.Share == share(r)
	})
}

// request is what a claim is to get. results are those of the allocation for this driver, and
// device[i] is the index in Devices of the device of results[i].
type request struct {
	lifecycle.ClaimRequest
	results []resourceapi.DeviceRequestAllocationResult
	device  []int
}

// request returns what the claim is to get of this driver.
func (d *Driver) request(ctx context.Context, c *resourceapi.ResourceClaim) (*request, error) {
	r := &request{}
	indexes := map[string]int{}
	for _, result := range c.Status.Allocation.Devices.Results {
		if result.Driver != d.opts.Name {
			continue
		}
		device, err := d.allocated(ctx, result, c.Status.Allocation.Devices.Config)
		if err != nil {
			return nil, err
		}
		index, ok := indexes[result.Device]
		if !ok {
			index = len(r.Devices)
			indexes[result.Device] = index
			r.Devices = append(r.Devices, device)
		} else if err := join(&r.Devices[index], device); err != nil {
			return nil, err
		}
		r.results, r.device = append(r.results, result), append(r.device, index)
	}
	if len(r.results) == 0 {
		return nil, fmt.Errorf("no device of driver %s is allocated", d.opts.Name)
	}
	return r, nil
}

// join adds a further share of a device to what the claim has of it. A claim has one CDI definition of a
// device: shares of different requests, whose containers may differ, cannot be distinguished.
func join(first *lifecycle.ClaimDevice, further lifecycle.ClaimDevice) error {
	switch {
	case first.Admin != further.Admin || string(first.Parameters) != string(further.Parameters):
		return fmt.Errorf("requests %s and %s have device %s with different parameters, or one of them with admin access: use two claims",
			first.Request, further.Request, first.Device.ID)
	case first.Request != further.Request && len(first.Amounts)+len(further.Amounts) > 0:
		return fmt.Errorf("requests %s and %s have a share each of device %s: use two claims, or the constraint distinctAttribute: accelmux.io/id",
			first.Request, further.Request, first.Device.ID)
	}
	if first.Amounts == nil {
		first.Amounts = further.Amounts
		return nil
	}
	for name, amount := range further.Amounts {
		first.Amounts[name] += amount
	}
	return nil
}

// amounts returns what a share has of each capacity with a request policy; nil for none.
func amounts(device *inventory.Device, result resourceapi.DeviceRequestAllocationResult) map[string]int64 {
	var all map[string]int64
	for name := range device.Policies.All() {
		if amount, ok := result.ConsumedCapacity[resourceapi.QualifiedName(name)]; ok {
			if all == nil {
				all = map[string]int64{}
			}
			all[name] = amount.Value()
		}
	}
	return all
}

// allocated returns the device of a result of the allocation, with the parameters that the
// allocation's configuration has for it.
func (d *Driver) allocated(ctx context.Context, result resourceapi.DeviceRequestAllocationResult, configuration []resourceapi.DeviceAllocationConfiguration,
) (lifecycle.ClaimDevice, error) {
	if result.Pool != d.opts.NodeName {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s of pool %s is not of this node, %s", result.Device, result.Pool, d.opts.NodeName)
	}
	device, of, ok := d.device(result.Device)
	if !ok && !d.newest().Reported {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s is not known: %w", result.Device, errNotReported)
	}
	if !ok {
		return lifecycle.ClaimDevice{}, unusable{fmt.Errorf("device %s is not on this node", result.Device)}
	}
	admin := result.AdminAccess != nil && *result.AdminAccess
	if admin && device.Potential && device.Edits.Empty() {
		return lifecycle.ClaimDevice{}, fmt.Errorf("device %s does not exist before a claim without admin access has it, so there is nothing to access: "+
			"request devices that exist, such as those of another accelmux.io/class", result.Device)
	}
	if !lifecycle.MayPrepare(device.Verdict) && !admin && !d.tolerated(result, device) {
		return lifecycle.ClaimDevice{}, unusable{fmt.Errorf("device %s is unhealthy: %s", result.Device, device.Verdict.Faults[0].Message)}
	}
	parameters, err := parametersFor(ctx, d.opts.Name, result.Request, configuration, of.Kinds, of.Backend.Description)
	if err != nil {
		return lifecycle.ClaimDevice{}, err
	}
	if parameters != nil && !device.Hooks.Prepare && !admin {
		return lifecycle.ClaimDevice{}, fmt.Errorf("the parameters for request %s would have no effect: device %s asks for no preparation, see the settings of its backend",
			result.Request, result.Device)
	}
	return lifecycle.ClaimDevice{
		Device: device.Device, Request: result.Request, Shared: result.ShareID != nil, Amounts: amounts(device.Device, result), Admin: admin, Parameters: parameters,
	}, nil
}

var errNotReported = lifecycle.TemporaryError{Err: errors.New("its backend has not reported its devices yet")}

// unusable is an error of a device that the claim cannot get, and another allocation may avoid.
type unusable struct{ error }

func share(result resourceapi.DeviceRequestAllocationResult) types.UID {
	if result.ShareID == nil {
		return ""
	}
	return *result.ShareID
}

// answer returns kubelet's answer for a claim that is prepared.
func (d *Driver) answer(c *holders.ClaimRecord) []kubeletplugin.Device {
	devices := make([]kubeletplugin.Device, len(c.Devices))
	for i, device := range c.Devices {
		devices[i] = kubeletplugin.Device{
			Requests: []string{device.Request}, PoolName: device.Pool, DeviceName: device.Name, CDIDeviceIDs: []string{device.CDI},
		}
		if device.Share != "" {
			devices[i].ShareID = new(device.Share)
		}
		if d.opts.Metadata {
			devices[i].Metadata = &kubeletplugin.DeviceMetadata{Attributes: d.attributes(device.Name)}
		}
	}
	return devices
}
