package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/topology"
)

// maxValues is the API server's bound on the values of all attributes of a device. It binds only
// devices that have an attribute with several values: without one, there are fewer attributes.
const maxValues = resourceapi.ResourceSliceMaxAttributeValuesPerDevice

// device returns a device as it is published.
func (b *builder) device(d resource.Device) resourceapi.Device {
	first, last := b.core(d)
	out := resourceapi.Device{
		Name: d.Name(), Attributes: first,
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}, ConsumesCounters: b.consumption(d.Device),
	}
	if b.Shares && d.Shareable {
		out.AllowMultipleAllocations = new(true)
	}
	if b.Binding && d.SlowToPrepare {
		out.BindsToNode, out.BindingConditions, out.BindingFailureConditions = new(true), []string{ConditionPrepared}, []string{ConditionFailed}
	}
	if !d.Verdict.Healthy {
		out.Taints = []resourceapi.DeviceTaint{Taint(d.Verdict, b.Evict)}
	}
	room := resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - len(out.Attributes)
	values := maxValues - len(out.Attributes)
	for _, entry := range b.entries(d.Device, last) {
		name := resourceapi.QualifiedName(entry.name)
		if room == 0 {
			b.omit(entry.String(), fmt.Sprintf("a device has at most %d attributes and capacities", resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice))
			continue
		}
		if entry.isCapacity {
			out.Capacity[name] = b.capacity(d.Device, entry.name)
			room--
			continue
		}
		attribute, ok := last[name]
		if !ok {
			value, _ := d.Attributes.Get(entry.name)
			attribute = resource.DeviceAttribute(value)
		}
		count := valuesOf(attribute)
		switch {
		case count > 1 && !b.Lists:
			b.omit(entry.String(), "the cluster does not have attributes with several values (feature gate DRAListTypeAttributes)")
		case count > values:
			b.omit(entry.String(), fmt.Sprintf("the attributes of a device have at most %d values", maxValues))
		default:
			out.Attributes[name] = attribute
			room, values = room-1, values-count
		}
	}
	return out
}

// entry is an attribute or a capacity of a device.
type entry struct {
	name       string
	isCapacity bool
}

func (e entry) String() string {
	if e.isCapacity {
		return "capacity " + e.name
	}
	return "attribute " + e.name
}

// entries returns the device's attributes and capacities: first those in the backend's
// AttributePriority, in its order, then the others by name, then the core's last.
func (b *builder) entries(d *inventory.Device, last map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) []entry {
	var all []entry
	for name := range d.Attributes.All() {
		all = append(all, entry{name, false})
	}
	for name := range d.Capacities.All() {
		all = append(all, entry{name, true})
	}
	priority := b.Backend.Description.AttributePriority
	rank := func(e entry) int {
		for i, name := range priority {
			if prefix, open := strings.CutSuffix(name, "*"); name == e.name || open && strings.HasPrefix(e.name, prefix) {
				return i
			}
		}
		return len(priority)
	}
	slices.SortStableFunc(all, func(x, y entry) int { return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.name, y.name)) })
	for _, fact := range lastFacts {
		if _, ok := last[resourceapi.QualifiedName(fact)]; ok {
			all = append(all, entry{fact, false})
		}
	}
	return all
}

// lastFacts are the core's attributes that are published after the backend's own, as far as there is room: they repeat
// what others say, or say nothing of the device.
var lastFacts = []string{
	config.FactsDomain + "/" + config.FactNUMANode, config.FactsDomain + "/" + config.FactPCIBusID, config.FactsDomain + "/" + config.FactBackendVersion,
}

// core returns the attributes that devices of all backends have: those that selectors see, the name of the device's
// resource, and its link groups. Every device has few enough of the first.
func (b *builder) core(d resource.Device) (first, last map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	first, last = resource.CoreAttributes(b.Backend, d.Device), map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for _, fact := range lastFacts {
		name := resourceapi.QualifiedName(fact)
		if value, ok := first[name]; ok {
			last[name] = value
			delete(first, name)
		}
	}
	text := func(name resourceapi.QualifiedName, value string) {
		if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength {
			first[name] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	text(config.FactsDomain+"/resource", d.Resource)
	for i, size := range topology.GroupSizes() {
		text(LinkGroupAttribute(size), b.LinkGroups[d.ID][i])
	}
	return first, last
}

// valuesOf returns how many values an attribute has.
func valuesOf(a resourceapi.DeviceAttribute) int {
	return max(1, len(a.StringValues)+len(a.IntValues)+len(a.BoolValues)+len(a.VersionValues))
}

func (b *builder) capacity(d *inventory.Device, name string) resourceapi.DeviceCapacity {
	amount, _ := d.Capacities.Get(name)
	out := resourceapi.DeviceCapacity{Value: *number(amount)}
	p, ok := d.Policies.Get(name)
	if !b.Shares || !d.Shareable {
		return out
	}
	if !ok { // without a policy a share that requests none of it would take it all
		out.RequestPolicy = &resourceapi.CapacityRequestPolicy{
			Default: number(0), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: number(0), Max: number(amount)},
		}
		return out
	}
	out.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: number(p.Default)}
	for _, value := range p.Values {
		out.RequestPolicy.ValidValues = append(out.RequestPolicy.ValidValues, *number(value))
	}
	if p.Range != nil {
		out.RequestPolicy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: number(p.Range.Min), Max: number(p.Range.Max)}
		if p.Range.Step > 0 {
			out.RequestPolicy.ValidRange.Step = number(p.Range.Step)
		}
	}
	return out
}

func number(n int64) *quantity.Quantity { return quantity.NewQuantity(n, quantity.BinarySI) }

// The conditions that a claim has of a device that is slow to prepare: it is prepared, and its pod can be
// bound; or that failed, and the scheduler is to choose again.
const (
	ConditionPrepared = "accelmux.io/Prepared"
	ConditionFailed   = "accelmux.io/PreparationFailed"
)

// TaintKey is the key of the taint of an unhealthy device.
const TaintKey = "accelmux.io/unhealthy"

// Eviction is whether a fault that reaches the holders of a device evicts their pods, and since when; zero: since
// before any fault.
type Eviction struct {
	On    bool
	Since time.Time
}

// Taint returns the taint of an unhealthy device. Its value is the code of the gravest fault, so
// that a claim can tolerate one kind of fault. Its time is that at which its effect became what it is: the
// tolerationSeconds of a pod count from it (pkg/controller/devicetainteviction), and a lesser fault does not evict.
func Taint(v health.Verdict, evict Eviction) resourceapi.DeviceTaint {
	taint := resourceapi.DeviceTaint{Key: TaintKey, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	var since, evicting time.Time
	for i, f := range v.Faults {
		if i == 0 && len(validation.IsValidLabelValue(f.Code)) == 0 {
			taint.Value = f.Code
		}
		since = earlier(since, f.Since)
		if evict.On && f.Reach == inventory.ReachHolders {
			taint.Effect = resourceapi.DeviceTaintEffectNoExecute
			evicting = earlier(evicting, cmp.Or(f.ReachSince, f.Since))
		}
	}
	if taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		if since = evicting; since.Before(evict.Since) {
			since = evict.Since
		}
	}
	taint.TimeAdded = new(metav1.NewTime(since.Truncate(time.Second)))
	return taint
}

// earlier returns the earlier of two times, where zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
