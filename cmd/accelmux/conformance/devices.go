package conformance

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// judgeInventory checks the devices of an inventory.
func (c *check) judgeInventory(next *backendv1.Inventory) {
	c.listing.Lock()
	defer c.listing.Unlock()
	if n := len(next.GetProblems()); n > inventory.MaxProblems {
		c.fail(devices, "it has %d problems; at most %d are allowed", n, inventory.MaxProblems)
	}
	c.judgeOrder(ids(next))
	c.pass(devices)
	c.judgeAttributes(next)
	if len(next.GetDevices()) == 0 {
		c.skip("the backend lists no device", stableOrder, deviceEdits, editsInManifest)
		return
	}
	c.pass(stableOrder, deviceEdits, editsInManifest)
	all := everything(next)
	for _, p := range c.problems(next, all) {
		c.fail(devices, "device %s: %s", p.Device, p.Message)
	}
	for _, d := range next.GetDevices() {
		for _, edits := range []*backendv1.ContainerEdits{d.GetEdits(), d.GetAdminEdits()} {
			if refusal := c.refusal(c.described.Edits, edits); refusal != "" && refusal != c.refusal(all, edits) {
				c.fail(editsInManifest, "device %s: %s", d.GetId(), refusal)
			}
		}
		c.use(d.GetEdits(), d.GetAdminEdits())
		c.judgeEdits(d)
	}
}

// refusal returns what is refused of edits if a manifest has this for containers, with what to add to it; "" for nothing.
func (c *check) refusal(declared inventory.EditScope, edits *backendv1.ContainerEdits) string {
	_, remark, err := inventory.ParseEdits(c.policy(declared), edits)
	if err != nil {
		return err.Error()
	}
	return remark
}

// policy accepts what a manifest has that has this for containers.
func (c *check) policy(declared inventory.EditScope) inventory.Policy {
	described := c.described
	described.Edits = declared
	return inventory.Policy{AcceptDeclared: true, ForAuthor: true, Host: c.HostPaths.host()}.With(described)
}

// everything returns a scope that allows all edits, and the group IDs of the devices.
func everything(i *backendv1.Inventory) inventory.EditScope {
	paths, all := []string{"/**"}, map[uint32]bool{}
	for _, d := range i.GetDevices() {
		for _, gid := range d.GetEdits().GetAdditionalGids() {
			all[gid] = true
		}
	}
	return inventory.EditScope{Devices: paths, Mounts: paths, Hooks: paths, Env: []string{"*"}, GIDs: slices.Sorted(maps.Keys(all))}
}

// problems returns the problems that the core finds in an inventory, without the problems that
// the backend reports.
func (c *check) problems(next *backendv1.Inventory, allowed inventory.EditScope) []inventory.Problem {
	const name = "backend"
	described := c.described
	described.Edits = allowed
	wire := &backendv1.Inventory{
		Generation: max(next.GetGeneration(), 1), Devices: next.GetDevices(), SettingsRevision: next.GetSettingsRevision(), CounterSets: next.GetCounterSets(),
		NodeLabels: next.GetNodeLabels(),
	}
	store := inventory.NewStore(nil)
	store.SetPolicies(map[string]inventory.Policy{name: {Allowed: allowed, AcceptDeclared: true, Host: c.HostPaths.host()}})
	store.Describe(name, described)
	report, err := inventory.EncodeReport(wire)
	if err == nil {
		err = store.Report(name, report)
	}
	if err != nil {
		return []inventory.Problem{{Message: err.Error()}}
	}
	return store.Snapshot().Backends[0].Problems
}

// judgeAttributes checks whether the attributes and capacities of the devices are declared, and what the manifest says of
// classes, values and labels.
func (c *check) judgeAttributes(next *backendv1.Inventory) {
	c.pass(attributesRule)
	for _, d := range next.GetDevices() {
		kinds := map[string]inventory.AttributeKind{}
		for name, a := range d.GetAttributes() {
			kinds[name] = inventory.KindOf(a)
		}
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			if !inventory.Declares(c.described.Attributes, name, kinds[name]) {
				c.fail(attributesRule, "device %s has the attribute %s of the kind %s, which is not declared", d.GetId(), name, kinds[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(d.GetCapacities())) {
			if !inventory.Declares(c.described.Attributes, name, inventory.CapacityKind) {
				c.fail(attributesRule, "device %s has the capacity %s, which is not declared", d.GetId(), name)
			}
		}
		c.judgeClass(d)
	}
	for _, label := range next.GetNodeLabels() {
		prefix, _, _ := strings.Cut(label.GetName(), "/")
		if known := c.described.Limits.Labels; known != nil && !slices.Contains(known, prefix) {
			c.fail(attributesRule, "the label %s is none of the manifest's labels: it has %s", label.GetName(), cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
}

// judgeClass checks a device by what the manifest says of its class, and of its attributes.
func (c *check) judgeClass(d *backendv1.Device) {
	limits, class := c.described.Limits, d.GetClass()
	if takes, isAbsent := limits.Absent[class]; isAbsent {
		c.fail(attributesRule, "device %s is of the class %s, of which there are only devices with %s, as the manifest has it", d.GetId(), class, takes)
	}
	for _, name := range slices.Sorted(maps.Keys(d.GetAttributes())) {
		if owners, limited := limits.Owners[name]; limited && !slices.Contains(owners.Classes, class) {
			c.fail(attributesRule, "device %s of the class %s has the attribute %s, which the manifest has for other classes", d.GetId(), class, name)
		}
		value := d.GetAttributes()[name].GetStringValue()
		if values := limits.Values[name]; values != nil && !slices.Contains(values, value) {
			c.fail(attributesRule, "device %s has the attribute %s %q, which is none of the manifest's values", d.GetId(), name, value)
		}
	}
}

// judgeOrder compares the order of the devices with the previous inventory.
func (c *check) judgeOrder(now []string) {
	place := make(map[string]int, len(now))
	for i, id := range now {
		place[id] = i
	}
	last := -1
	for _, id := range c.order {
		i, listed := place[id]
		switch {
		case !listed:
		case i < last:
			c.fail(stableOrder, "device %s is before %s, and was after it", id, now[last])
		default:
			last = i
		}
	}
	c.order = now
}

// judgeEdits checks whether a device has the edits that it must have.
func (c *check) judgeEdits(d *backendv1.Device) {
	edits := d.GetEdits()
	plain := len(edits.GetDeviceNodes()) + len(edits.GetMounts()) + len(edits.GetHooks()) + len(edits.GetAdditionalGids()) + len(edits.GetNetDevices())
	for name := range edits.GetEnv() {
		if _, joined := edits.GetEnvSeparators()[name]; !joined {
			plain++
		}
	}
	for _, node := range edits.GetDeviceNodes() {
		name := cmp.Or(node.GetHostPath(), node.GetPath())
		// Elsewhere files stand in for nodes.
		if info, err := os.Stat(name); c.HostPaths.Devfs == "/dev" && err == nil && info.Mode().IsRegular() {
			c.fail(devices, "device %s: the device node %s is a plain file, which container runtimes refuse", d.GetId(), name)
		}
	}
	healthy := d.GetHealth().GetState() == backendv1.HealthState_HEALTH_STATE_HEALTHY
	if healthy && !d.GetPotential() && plain == 0 {
		c.fail(deviceEdits, "device %s has none", d.GetId())
	}
}

func hasHook(d *backendv1.Device, hook backendv1.Hook) bool {
	return slices.Contains(d.GetHooks(), hook)
}
