package diagram

// Topology is one resource's units, devices and links. New fields may come; none is
// renamed or removed within v1 of the admin socket.
type Topology struct {
	Resource string `json:"resource"`
	// Policy is what a choice is for: best-links, spread, pack or none.
	Policy string `json:"policy"`
	// Matters says that the choice of units can matter: with another policy than none,
	// and units that are not all alike.
	Matters bool     `json:"matters"`
	Devices []Device `json:"devices"`
	// Links has each pair of devices that has a link once.
	Links []Link `json:"links"`
	// LinksLeftOut is how many more there are: an answer has 262,144 at most.
	LinksLeftOut int `json:"linksLeftOut,omitempty"`
	// Tree is the units as the links group them; missing where these are no hierarchy.
	Tree *Group `json:"tree,omitempty"`
}

// Device is one device of a resource. Its ID is unique in the resource.
type Device struct {
	Backend   string `json:"backend"`
	ID        string `json:"id"`
	Model     string `json:"model,omitempty"`
	PCIBusID  string `json:"pciBusID,omitempty"`
	NUMANodes []int  `json:"numaNodes,omitempty"`
	// Parent is the device that this is a partition of.
	Parent string `json:"parent,omitempty"`
	// Units are what can be chosen of it: one, or its replicas.
	Units []Unit `json:"units"`
}

// State is how a unit is.
type State string

// The states of units.
const (
	Free      State = "free"
	Held      State = "held"
	Unhealthy State = "unhealthy"
)

// Unit is one thing that can be chosen.
type Unit struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// Holder is the container that holds it, namespace/pod/container; "" if none does
	// or kubelet has not named it yet.
	Holder string `json:"holder,omitempty"`
}

// Link is that of a pair of devices, the worse of its two directions.
type Link struct {
	A string `json:"a"`
	B string `json:"b"`
	// Kind is as in the contract: nvlink, xgmi, pcie_switch ...
	Kind string `json:"kind"`
	// Count is how many lie side by side.
	Count    int `json:"count"`
	Distance int `json:"distance,omitempty"`
	// Path is the kind of the path over PCIe of a pair that also has a direct link.
	Path string `json:"path,omitempty"`
	// Weight is the points of the pair in a choice.
	Weight int64 `json:"weight"`
	// OneWay says that B reports no link to A, so that the weight is 0.
	OneWay bool `json:"oneWay,omitempty"`
}

// Group is a part of the tree.
type Group struct {
	// Names say what it is, besides its links: "NUMA 0", "device gpu0".
	Names []string `json:"names,omitempty"`
	// Weight is that of the links of any two devices in it that are not together in
	// one of Groups; 0 if there are no links, or no two devices.
	Weight int64 `json:"weight,omitempty"`
	// Units are those that are in none of Groups.
	Units  []string `json:"units,omitempty"`
	Groups []Group  `json:"groups,omitempty"`
}
