package sdk

import (
	"encoding/json"
	"slices"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Holder is a container or a claim that has devices allocated.
type Holder struct {
	// ID is opaque: the same in all calls for this holder, never used for another.
	ID   string
	Kind HolderKind
}

// HolderKind is the kind of a holder.
type HolderKind = backendv1.HolderKind

// The kinds of holders.
const (
	// HolderContainer is a container with the devices of one Allocate of the device plugin API.
	HolderContainer = backendv1.HolderKind_HOLDER_KIND_CONTAINER
	// HolderClaim is a ResourceClaim, which several containers and pods may use.
	HolderClaim = backendv1.HolderKind_HOLDER_KIND_CLAIM
)

// HeldDevice is a device that is allocated to a holder.
type HeldDevice struct {
	ID string
	// Shared: the device is, or may be, allocated to another holder, too. Nothing may be done to
	// it that disturbs that holder.
	Shared bool
	// Capacities are the holder's amounts of each capacity with a request policy; nil if the
	// device is not shared by amounts.
	Capacities map[string]int64
}

// Preparation describes what Prepare does for a holder before a container starts.
type Preparation struct {
	Holder Holder
	// Resource is the Kubernetes resource or device class that was requested, such as
	// nvidia.com/gpu.
	Resource string
	// Devices are those allocated to the holder.
	Devices []HeldDevice
	// Parameters are the holder's: one JSON object, {} for none, that the manifest's schema of
	// parameters accepts. A pod's author may have written it.
	Parameters json.RawMessage
}

// IDs returns the IDs of the devices.
func (p Preparation) IDs() []string {
	ids := make([]string, len(p.Devices))
	for i, d := range p.Devices {
		ids[i] = d.ID
	}
	return ids
}

// Shared returns the IDs of the devices that another holder has, too, or may have.
func (p Preparation) Shared() []string {
	var ids []string
	for _, d := range p.Devices {
		if d.Shared {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// preparation converts a request.
func preparation(req *backendv1.PrepareRequest) Preparation {
	p := Preparation{
		Holder: holderOf(req.GetHolder()), Resource: req.GetResource(), Devices: heldOf(req.GetDevices()),
		Parameters: json.RawMessage("{}"),
	}
	if len(req.GetParametersJson()) > 0 {
		p.Parameters = slices.Clone(req.GetParametersJson())
	}
	return p
}

// releaseResponse returns the result of each device.
func releaseResponse(devices []HeldDevice, failed map[string]error) *backendv1.ReleaseResponse {
	res := &backendv1.ReleaseResponse{}
	for _, d := range devices {
		result := &backendv1.ReleaseResult{DeviceId: d.ID, Released: true}
		if err := failed[d.ID]; err != nil {
			result.Released, result.Message = false, clip(err.Error(), maxMessage)
		}
		res.Results = append(res.Results, result)
	}
	return res
}

func holderOf(wire *backendv1.Holder) Holder { return Holder{ID: wire.GetId(), Kind: wire.GetKind()} }

func heldOf(wire []*backendv1.HeldDevice) []HeldDevice {
	var all []HeldDevice
	for _, d := range wire {
		all = append(all, HeldDevice{ID: d.GetId(), Shared: d.GetShared(), Capacities: d.GetCapacities()})
	}
	return all
}
