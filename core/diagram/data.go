package diagram

// Topology is one resource's units, devices and links. Fields may be added; none is renamed
// or removed within v1 of the admin socket.
type Topology struct {
	Resource string `json:"resource"`
	// Policy is the allocation policy: best-links, spread, pack or none; "" where the scheduler
	// chooses (dynamic resource allocation).
	Policy string `json:"policy"`
	// Matters: the choice of units can matter. The policy is not none, and the units are not
	// all alike.
	Matters bool     `json:"matters"`
	Devices []Device `json:"devices"`
	// Links has one link for each pair of linked devices.
	Links []Link `json:"links"`
	// Tree is the units as grouped by the links; missing if the links are not a hierarchy.
	Tree *Group `json:"tree,omitempty"`
}

// Device is one device of a resource. Its ID is unique in the resource.
type Device struct {
	Backend   string `json:"backend"`
	ID        string `json:"id"`
	Model     string `json:"model,omitempty"`
	PCIBusID  string `json:"pciBusID,omitempty"`
	NUMANodes []int  `json:"numaNodes,omitempty"`
	// Parent is the device of which this is a partition.
	Parent string `json:"parent,omitempty"`
	// Taken are the amounts that claims have of the capacities of a device that they share.
	Taken map[string]int64 `json:"taken,omitempty"`
	// Units are the device itself, or its replicas.
	Units []Unit `json:"units"`
}

// State is the state of a unit.
type State string

// The states of units.
const (
	Free      State = "free"
	Held      State = "held"
	Unhealthy State = "unhealthy"
)

// Unit is what a container can be allocated: a device or a replica of one.
type Unit struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Holder is the container that holds it, namespace/pod/container, or "claim namespace/name";
	// "" if there is none or it is not known yet.
	Holder string `json:"holder,omitempty"`
}

// Link is the link of a pair of devices, the worse of its two directions.
type Link struct {
	A string `json:"a"`
	B string `json:"b"`
	// Kind is as in the contract: nvlink, xgmi, pcie_switch ...
	Kind string `json:"kind"`
	// Count is the number of parallel links.
	Count    int `json:"count"`
	Distance int `json:"distance,omitempty"`
	// Path is the kind of the PCIe path of a pair that also has a direct link.
	Path string `json:"path,omitempty"`
	// Weight is the value of the pair in a choice.
	Weight int64 `json:"weight"`
	// OneWay: B reports no link to A, so the weight is 0.
	OneWay bool `json:"oneWay,omitempty"`
}

// Group is a part of the tree.
type Group struct {
	// Names describe it in addition to its links: "NUMA 0", "device gpu0".
	Names []string `json:"names,omitempty"`
	// Weight is that of the link between any two devices that are in different ones of
	// Groups; 0 if there is none.
	Weight int64 `json:"weight,omitempty"`
	// Units are those in none of Groups.
	Units  []string `json:"units,omitempty"`
	Groups []Group  `json:"groups,omitempty"`
}
