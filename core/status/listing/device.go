// Package listing is what the agent's status server answers about devices, as JSON, and the words in
// which the commands and pages show it, with the names of pods or without. It imports nothing else of the agent, so that programs that only ask
// one stay small.
package listing

import "time"

// Device is one device, for `accelmux devices`.
type Device struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
	Class   string `json:"class"`
	// Resource is the resource that has it, "" if none selects it.
	Resource string `json:"resource,omitempty"`
	// Replicas is how many containers may share it; missing if it is not shared.
	Replicas   int            `json:"replicas,omitempty"`
	Healthy    bool           `json:"healthy"`
	Faults     []Fault        `json:"faults,omitempty"`
	NUMANodes  []int          `json:"numaNodes,omitempty"`
	PCIBusID   string         `json:"pciBusID,omitempty"`
	PCIeRoot   string         `json:"pcieRoot,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
	// Versions are the names of the attributes that selectors compare as semantic versions, or lists of them.
	Versions []string `json:"versions,omitempty"`
	// Capacities are in base units.
	Capacities map[string]int64 `json:"capacities,omitempty"`
	// Potential: the device does not exist before Prepare makes it for a claim.
	Potential bool `json:"potential,omitempty"`
	// MadeFor is the UID of the claim for which Prepare made the device.
	MadeFor string   `json:"madeFor,omitempty"`
	Parent  string   `json:"parent,omitempty"`
	CDI     string   `json:"cdi,omitempty"`
	Holders []Holder `json:"holders,omitempty"`
}

// Fault is one fault of a device.
type Fault struct {
	Code     string `json:"code"`
	Message  string `json:"message,omitempty"`
	Recovery string `json:"recovery"`
	// Reach is what it affects: "new-holders", "device" or "holders".
	Reach string    `json:"reach,omitempty"`
	Since time.Time `json:"since"`
	From  string    `json:"from,omitempty"`
}

// Holder is a container that has a device, as a unit of a resource or by a claim. Pod and
// Container are empty until kubelet's pod-resources API has named them.
type Holder struct {
	// Namespace is that of the claim and of its pods.
	Namespace string `json:"namespace,omitempty"`
	// Claim is the name of the ResourceClaim; missing for a unit.
	Claim     string `json:"claim,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Resource  string `json:"resource"`
	// Unit is missing for a claim.
	Unit string `json:"unit,omitempty"`
	// PodHash and ClaimHash stand for the names where these are not shown, see [Hash].
	PodHash   string `json:"podHash,omitempty"`
	ClaimHash string `json:"claimHash,omitempty"`
	// Ending: kubelet no longer lists the pod. The device is released when another list
	// confirms that, within seconds.
	Ending bool `json:"ending,omitempty"`
}
