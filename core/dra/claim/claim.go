// Package claim stores which claims of this node are prepared, and with what: kubelet's
// NodeUnprepareResources names a claim and nothing else, and neither kubelet nor the API server
// knows what was done for it.
//
//	Put, not prepared ──► the backend prepares ──► Put, prepared
//	Put, not prepared ──► the devices are released ──► Remove
//
// So after a crash at any point the record has every claim for which a backend may have done
// something, and those that are prepared are complete.
//
// Each claim of a driver has a file of its own, with a header that has a version and the checksum
// of the bytes that follow. A file that is damaged, or of a newer version, is reported as a
// problem and does not affect other claims. Its name has the driver and the UID, so the claim can be
// unprepared; until then it holds the devices that kubelet lists for a pod with it.
package claim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// Claim is what one driver serves of a claim.
type Claim struct {
	// Driver is the name of the driver (resource.k8s.io/v1 DeviceRequestAllocationResult).
	Driver string `json:"driver"`
	// UID identifies the claim. A claim that was deleted and created again has another one.
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Extended: the scheduler made the claim for a pod that asks for an extended resource.
	Extended bool `json:"extended,omitempty"`
	// Prepared: the devices are ready for containers. Otherwise their preparation or their end has
	// begun; they must be prepared again before they are used, and released when the claim ends.
	Prepared bool `json:"prepared"`
	// BootID is the kernel's identification of the boot in which the devices were prepared. In
	// another one they must be prepared again.
	BootID string `json:"bootID"`
	// Unbound: the devices are prepared before the pod is bound to the node, and kubelet has not asked for
	// them: no container has them.
	Unbound bool `json:"unbound,omitempty"`
	// Devices are in the order of the allocation's results; at least one.
	Devices []Device `json:"devices"`
}

// Device is a device of a claim.
type Device struct {
	// Request is the request's name, with the name of the chosen alternative after a slash.
	Request string `json:"request"`
	// Pool and Name are those in the ResourceSlice, Backend and ID those of the inventory.
	Pool    string `json:"pool"`
	Name    string `json:"name"`
	Backend string `json:"backend"`
	ID      string `json:"id"`
	// Share identifies a share of a device that may have several; "" for others.
	Share types.UID `json:"share,omitempty"`
	// Amounts are what the share has of each capacity of the device that is divided.
	Amounts map[string]int64 `json:"amounts,omitempty"`
	// Admin: the claim has admin access. The device may have other holders, and the claim does
	// not hold it.
	Admin bool `json:"admin,omitempty"`
	// ResetGroup and Parents are the device's reset scope, by IDs: a reset of one of these reaches the device.
	ResetGroup string   `json:"resetGroup,omitempty"`
	Parents    []string `json:"parents,omitempty"`
	// CDI is the name of the definition of this device for this claim.
	CDI string `json:"cdi"`
	// Parameters are those that the backend's Prepare got; nil for none.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Edits is the content of the definition; nil if the claim was never prepared.
	Edits json.RawMessage `json:"edits,omitempty"`
}

// Key returns the device's key in the inventory.
func (d Device) Key() inventory.Key { return inventory.Key{Backend: d.Backend, ID: d.ID} }

// magic is the kind and version of a claim's file. Versions and the releases that read them:
//
//	1  all releases with dynamic resource allocation
const magic = "accelmux-claim/1"

// decode returns the claim in a file's payload. A payload with the right checksum that is incomplete
// or not JSON is corrupt, too.
func decode(payload []byte) (*Claim, error) {
	c := &Claim{}
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return c, nil
}

var errIncomplete = errors.New("the claim is incomplete")

func (c *Claim) check() error {
	if c.Driver == "" || c.UID == "" || c.Namespace == "" || c.Name == "" || len(c.Devices) == 0 {
		return errIncomplete
	}
	for _, d := range c.Devices {
		if d.Request == "" || d.Pool == "" || d.Name == "" || d.Backend == "" || d.ID == "" || d.CDI == "" {
			return errIncomplete
		}
	}
	return nil
}

// AdminAccess returns the devices to which the claim has admin access.
func (c *Claim) AdminAccess() (devices []inventory.Key) {
	for _, d := range c.Devices {
		if d.Admin {
			devices = append(devices, d.Key())
		}
	}
	return devices
}

func (c *Claim) has(device inventory.Key) bool {
	return slices.ContainsFunc(c.Devices, func(d Device) bool { return d.Key() == device })
}

// String is the claim's namespace and name, for messages.
func (c *Claim) String() string { return c.Namespace + "/" + c.Name }

func compare(a, b *Claim) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// clone returns a copy. The raw JSON is shared, and must not be changed.
func (c *Claim) clone() *Claim {
	copied := *c
	copied.Devices = slices.Clone(c.Devices)
	return &copied
}
