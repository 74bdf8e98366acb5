package allocator

import (
	"context"
	"errors"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/topology"
)

// Inventory is what an agent publishes.
type Inventory struct {
	Slices []*resourceapi.ResourceSlice `json:"slices"`
	// Resources have the links of the devices, and who holds them.
	Resources []diagram.Topology `json:"resources"`
}

// Explanation is what a claim gets.
type Explanation struct {
	Claim string `json:"claim"`
	// Devices are missing if the claim stays Pending.
	Devices []Allocated `json:"devices,omitempty"`
	// Links are those of the devices of each resource of which the claim gets several.
	Links []Links `json:"links,omitempty"`
}

// Allocated is a device that a claim gets.
type Allocated struct {
	Request  string `json:"request"`
	ID       string `json:"id"`
	Resource string `json:"resource"`
	Driver   string `json:"driver"`
	Name     string `json:"name"`
}

// Links are those among the devices of a resource that a claim gets.
type Links struct {
	Resource string `json:"resource"`
	Chosen   Set    `json:"chosen"`
	// Best are free devices with the best links with which the requests can be satisfied; missing if
	// Chosen is as good.
	Best *Set `json:"best,omitempty"`
	// Constraint is the attribute that gives fully linked devices; WithConstraint are the devices that
	// the claim gets with it, missing if it would stay Pending. Both are missing without a Best.
	Constraint     string `json:"constraint,omitempty"`
	WithConstraint *Set   `json:"withConstraint,omitempty"`
}

// Set is devices and the links among them, with their points as of package topology.
type Set struct {
	Devices     []string        `json:"devices"`
	Links       []diagram.Pairs `json:"links"`
	WeakestLink int64           `json:"weakestLink"`
	SumOfLinks  int64           `json:"sumOfLinks"`
}

func newSet(of *diagram.Topology, devices []string) *Set {
	described := of.Set(devices)
	s := &Set{Devices: described.Units, Links: described.Links}
	for _, p := range s.Links {
		s.WeakestLink, s.SumOfLinks = p.Weight, s.SumOfLinks+int64(p.Pairs)*p.Weight // the best comes first
	}
	return s
}

// Explain returns what the claims of a manifest get, one after the other, on the node as it is. The
// error is for the user.
func Explain(ctx context.Context, inv Inventory, o Objects) (all []Explanation, err error) {
	e, err := newExplainer(inv, o)
	if err != nil {
		return nil, err
	}
	for _, c := range o.Claims {
		one, err := e.explain(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// device is a device of a slice.
type device struct {
	structured.DeviceID
	id, resource string
}

type explainer struct {
	node Node
	// devices are those of the slices.
	devices   map[structured.DeviceID]device
	resources map[string]*diagram.Topology
}

func newExplainer(inv Inventory, o Objects) (*explainer, error) {
	if len(inv.Slices) == 0 {
		return nil, errors.New("no device is published in a ResourceSlice: no resource of the node has api: dra, or its driver does not publish yet; see accelmux status")
	}
	e := &explainer{devices: map[structured.DeviceID]device{}, resources: map[string]*diagram.Topology{}, node: Node{
		Slices: inv.Slices, Classes: o.Classes, Taken: structured.NewConsumedCapacityCollection(),
	}}
	held, taken := map[[2]string]bool{}, map[[2]string]map[string]int64{}
	var names []string
	for i := range inv.Resources {
		r := &inv.Resources[i]
		e.resources[r.Resource] = r
		names = append(names, r.Resource)
		for _, d := range r.Devices {
			held[[2]string{r.Resource, d.ID}] = slices.ContainsFunc(d.Units, func(u diagram.Unit) bool { return u.State == diagram.Held || u.Holder != "" })
			taken[[2]string{r.Resource, d.ID}] = d.Taken
		}
	}
	for _, s := range inv.Slices {
		if s.Spec.NodeName != nil {
			e.node.Name = *s.Spec.NodeName
		}
		for _, published := range s.Spec.Devices {
			d := device{structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, published.Name), text(published, config.FactID), text(published, "resource")}
			e.devices[d.DeviceID] = d
			key := [2]string{d.resource, d.id}
			switch shared := published.AllowMultipleAllocations; {
			case !held[key]:
			case shared == nil || !*shared:
				e.node.Allocated = append(e.node.Allocated, d.DeviceID)
			default:
				amounts := map[resourceapi.QualifiedName]resource.Quantity{}
				for capacity, amount := range taken[key] {
					amounts[resourceapi.QualifiedName(capacity)] = *resource.NewQuantity(amount, resource.BinarySI)
				}
				e.node.Taken.Insert(structured.NewDeviceConsumedCapacity(d.DeviceID, amounts))
			}
		}
	}
	o.addClasses(names)
	return e, o.check()
}

// text returns the value of an attribute of the core's; "" if the device does not have it.
func text(d resourceapi.Device, fact string) string {
	if a, ok := d.Attributes[resourceapi.QualifiedName(config.FactsDomain+"/"+fact)]; ok && a.StringValue != nil {
		return *a.StringValue
	}
	return ""
}

// explain returns what a claim gets, and allocates it for the claims that follow.
func (e *explainer) explain(ctx context.Context, c Claim) (Explanation, error) {
	one := Explanation{Claim: c.Name}
	results, err := e.node.Allocate(ctx, c)
	if err != nil {
		return one, err
	}
	byResource := map[string][]resourceapi.DeviceRequestAllocationResult{}
	for _, r := range results {
		d := e.device(r)
		one.Devices = append(one.Devices, Allocated{r.Request, d.id, d.resource, r.Driver, r.Device})
		byResource[d.resource] = append(byResource[d.resource], r)
	}
	for _, name := range slices.Sorted(maps.Keys(byResource)) {
		if len(byResource[name]) < 2 || e.resources[name] == nil {
			continue
		}
		links, err := e.links(ctx, c, name, byResource[name])
		if err != nil {
			return one, err
		}
		one.Links = append(one.Links, links)
	}
	for _, r := range results {
		switch {
		case r.AdminAccess != nil && *r.AdminAccess:
		case r.ShareID != nil:
			e.node.Taken.Insert(structured.NewDeviceConsumedCapacity(e.device(r).DeviceID, r.ConsumedCapacity))
		default:
			e.node.Allocated = append(e.node.Allocated, e.device(r).DeviceID)
		}
	}
	return one, nil
}

func (e *explainer) device(r resourceapi.DeviceRequestAllocationResult) device {
	return e.devices[structured.MakeDeviceID(r.Driver, r.Pool, r.Device)]
}

// ids returns the devices of a resource among results.
func (e *explainer) ids(resource string, results []resourceapi.DeviceRequestAllocationResult) (all []string) {
	for _, r := range results {
		if d := e.device(r); d.resource == resource {
			all = append(all, d.id)
		}
	}
	return all
}

// links compares the devices of a resource that a claim gets with the best.
func (e *explainer) links(ctx context.Context, c Claim, resource string, results []resourceapi.DeviceRequestAllocationResult) (Links, error) {
	described, chosen := e.resources[resource], e.ids(resource, results)
	t := described.Prepare()
	l := Links{Resource: resource, Chosen: *newSet(described, chosen)}
	usable, err := e.usable(ctx, c, resource)
	if err != nil {
		return l, err
	}
	best := t.Choose(topology.Request{Available: usable, Size: len(chosen)}).IDs
	if t.Level(best) <= t.Level(chosen) {
		return l, nil
	}
	all, err := e.without(func(d device) bool { return d.resource == resource && !slices.Contains(best, d.id) }).Allocate(ctx, c)
	if err != nil || all == nil { // each of the requests can have some of them, and all together cannot
		return l, err
	}
	l.Best = newSet(described, best)
	for _, size := range topology.GroupSizes() {
		if size >= len(chosen) {
			return l, e.constrain(ctx, c, &l, size, results)
		}
	}
	return l, nil
}

// constrain finds the devices that the claim gets with a constraint on the link group.
func (e *explainer) constrain(ctx context.Context, c Claim, l *Links, size int, results []resourceapi.DeviceRequestAllocationResult) error {
	l.Constraint = string(pool.LinkGroupAttribute(size))
	constraint := resourceapi.DeviceConstraint{MatchAttribute: new(resourceapi.FullyQualifiedName(l.Constraint))}
	for _, r := range results {
		if !slices.Contains(constraint.Requests, r.Request) {
			constraint.Requests = append(constraint.Requests, r.Request)
		}
	}
	c.Spec.Devices.Constraints = append(slices.Clone(c.Spec.Devices.Constraints), constraint)
	got, err := e.node.Allocate(ctx, c)
	if ids := e.ids(l.Resource, got); len(ids) > 0 {
		l.WithConstraint = newSet(e.resources[l.Resource], ids)
	}
	return err
}

// usable returns the free devices of a resource that one of the claim's requests can have.
func (e *explainer) usable(ctx context.Context, c Claim, resource string) (ids []string, err error) {
	none := e.without(func(device) bool { return true })
	for i, s := range e.node.Slices {
		for j, published := range s.Spec.Devices {
			d := e.devices[structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, published.Name)]
			if d.resource != resource {
				continue
			}
			one := *s
			one.Spec.Devices = s.Spec.Devices[j : j+1]
			n := *none
			n.Slices = slices.Clone(none.Slices)
			n.Slices[i] = &one
			fits, err := fitsOne(ctx, &n, c)
			if err != nil {
				return nil, err
			}
			if fits {
				ids = append(ids, d.id)
			}
		}
	}
	return ids, nil
}

// fitsOne reports whether one of the claim's requests can have a device of the node.
func fitsOne(ctx context.Context, n *Node, c Claim) (bool, error) {
	for _, r := range c.Spec.Devices.Requests {
		if got, err := n.Allocate(ctx, single(c, r)); err != nil || got != nil {
			return got != nil, err
		}
	}
	return false, nil
}

// single returns a claim for one device of a request.
func single(c Claim, r resourceapi.DeviceRequest) Claim {
	r = *r.DeepCopy()
	if r.Exactly != nil {
		r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeExactCount, 1
	}
	for i := range r.FirstAvailable {
		r.FirstAvailable[i].AllocationMode, r.FirstAvailable[i].Count = resourceapi.DeviceAllocationModeExactCount, 1
	}
	c.Spec.Devices = resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{r}}
	return c
}

// without returns the node without some devices.
func (e *explainer) without(isGone func(device) bool) *Node {
	n := e.node
	n.Slices = nil
	for _, s := range e.node.Slices {
		left := *s
		left.Spec.Devices = slices.DeleteFunc(slices.Clone(s.Spec.Devices), func(d resourceapi.Device) bool {
			return isGone(e.devices[structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)])
		})
		n.Slices = append(n.Slices, &left)
	}
	return &n
}
