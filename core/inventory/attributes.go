package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// coreDomain is the domain of the attributes that the core itself gives to every device.
const coreDomain = "accelmux.io"

// ownAttributes are attributes in Kubernetes' domain that the core sets from other fields.
var ownAttributes = map[string]string{
	"resource.kubernetes.io/pciBusID": "pci_bus_id",
	"resource.kubernetes.io/numaNode": "numa_nodes",
}

// Attribute is a typed value or a list of values, as in resource.k8s.io/v1 DeviceAttribute.
type Attribute struct {
	// Value is a string, an int64, a bool, a [Version], or a slice of one of these, which
	// is never empty.
	Value any
}

// Version is the value of an attribute that is a semantic version, such as 535.104.5.
type Version string

// Equal reports whether both have the same type and value.
func (a Attribute) Equal(b Attribute) bool { return reflect.DeepEqual(a.Value, b.Value) }

// String returns the value as text, the values of a list with commas between them; "" if there
// is none.
func (a Attribute) String() string {
	switch v := a.Value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case Version:
		return string(v)
	case []string:
		return strings.Join(v, ",")
	case []int64:
		return joined(v)
	case []bool:
		return joined(v)
	case []Version:
		return joined(v)
	}
	return ""
}

func joined[T any](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

// RequestPolicy is how a holder may request a part of a capacity, as in resource.k8s.io/v1
// CapacityRequestPolicy.
type RequestPolicy struct {
	// Default is the amount for a holder that requests none.
	Default int64
	// Values are the possible amounts, ascending; nil for a range or any amount.
	Values []int64
	// Range bounds the amounts; nil for values or any amount.
	Range *AmountRange
}

// AmountRange are the amounts from Min to Max, in steps of Step from Min; 0 for any.
type AmountRange struct{ Min, Max, Step int64 }

// names sets the device's valid attributes and capacities. An invalid one is left out, with a
// remark; the device stays.
func (p *parser) names(d *Device, w *backendv1.Device) (remarks []string) {
	room := maxNames
	drop := func(what, name string, err error) {
		remarks = append(remarks, fmt.Sprintf("%s %s is left out: %s", what, quote(name), err))
	}
	for _, name := range sortedKeys(w.GetAttributes()) {
		a, err := parseAttribute(w.GetAttributes()[name])
		if err != nil {
			err = fmt.Errorf("its value %w", err)
		}
		if named := p.checkName(name); named != nil {
			err = named
		} else if err == nil && room == 0 {
			err = errTooManyNames
		}
		if err != nil {
			drop("attribute", name, err)
			continue
		}
		d.Attributes = append(d.Attributes, NamedValue[Attribute]{name, a})
		room--
	}
	for _, name := range sortedKeys(w.GetCapacities()) {
		amount, err := w.GetCapacities()[name], p.checkName(name)
		switch {
		case err == nil && amount < 0:
			err = fmt.Errorf("it is %d; an amount is never negative", amount)
		case err == nil && room == 0:
			err = errTooManyNames
		}
		if err != nil {
			drop("capacity", name, err)
			continue
		}
		d.Capacities = append(d.Capacities, NamedValue[int64]{name, amount})
		room--
	}
	for _, name := range sortedKeys(w.GetRequestPolicies()) {
		policy, err := requestPolicy(d, name, w.GetRequestPolicies()[name])
		if err != nil {
			drop("the request policy of capacity", name, err)
			continue
		}
		d.Policies = append(d.Policies, NamedValue[RequestPolicy]{name, policy})
	}
	return remarks
}

var errTooManyNames = fmt.Errorf("a device has at most %d attributes and capacities together", maxNames)

// checkName checks a name as resource.k8s.io QualifiedName.
func (p *parser) checkName(name string) error {
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, id = "", name
	}
	field, own := ownAttributes[name]
	switch {
	case len(id) > maxName || len(validation.IsCIdentifier(id)) > 0:
		return fmt.Errorf("its name must be a C identifier of at most %d characters, alone or after a domain and a slash", maxName)
	case !qualified:
		return nil
	case len(domain) > maxDomain || len(validation.IsDNS1123Subdomain(domain)) > 0:
		return fmt.Errorf("its domain must be a DNS subdomain of at most %d characters", maxDomain)
	case domain == coreDomain:
		return fmt.Errorf("the domain %s is the core's; use a name without a domain", coreDomain)
	case domain == p.desc.Name:
		return fmt.Errorf("the domain is the backend's own; use the name without it")
	case own:
		return fmt.Errorf("the core sets it from the field %s; set that", field)
	}
	return nil
}

func parseAttribute(w *backendv1.Attribute) (Attribute, error) {
	switch v := w.GetValue().(type) {
	case *backendv1.Attribute_StringValue:
		return Attribute{v.StringValue}, checkText(v.StringValue, maxString)
	case *backendv1.Attribute_IntValue:
		return Attribute{v.IntValue}, nil
	case *backendv1.Attribute_BoolValue:
		return Attribute{v.BoolValue}, nil
	case *backendv1.Attribute_VersionValue:
		return Attribute{Version(v.VersionValue)}, checkVersion(v.VersionValue)
	case *backendv1.Attribute_StringValues:
		return list(v.StringValues.GetValues(), func(s string) (string, error) { return s, checkText(s, maxString) })
	case *backendv1.Attribute_IntValues:
		return list(v.IntValues.GetValues(), func(i int64) (int64, error) { return i, nil })
	case *backendv1.Attribute_BoolValues:
		return list(v.BoolValues.GetValues(), func(b bool) (bool, error) { return b, nil })
	case *backendv1.Attribute_VersionValues:
		return list(v.VersionValues.GetValues(), func(s string) (Version, error) { return Version(s), checkVersion(s) })
	}
	return Attribute{}, fmt.Errorf("is missing; set one, or leave the attribute out")
}

// list checks the values of a list.
func list[W, T any](wire []W, check func(W) (T, error)) (Attribute, error) {
	if n := len(wire); n == 0 || n > maxValues {
		return Attribute{}, fmt.Errorf("is a list of %d; 1 to %d are possible", n, maxValues)
	}
	values := make([]T, len(wire))
	for i, w := range wire {
		var err error
		if values[i], err = check(w); err != nil {
			return Attribute{}, fmt.Errorf("has an entry %d that %w", i+1, err)
		}
	}
	return Attribute{values}, nil
}

// requestPolicy checks a policy as the API server does.
func requestPolicy(d *Device, name string, w *backendv1.RequestPolicy) (RequestPolicy, error) {
	capacity, ok := d.Capacities.Get(name)
	p := RequestPolicy{Default: w.GetDefault(), Values: slices.Clone(w.GetValues())}
	switch {
	case !ok:
		return p, fmt.Errorf("the device has no such capacity")
	case !d.Shareable:
		return p, fmt.Errorf("the device is not shareable")
	case p.Default <= 0 || p.Default > capacity:
		return p, fmt.Errorf("its default is %d; it must be above 0 and at most the capacity, %d", p.Default, capacity)
	case len(p.Values) > 0 && w.GetRange() != nil:
		return p, fmt.Errorf("it has values and a range; set one of them")
	case len(p.Values) > maxPolicyValues:
		return p, fmt.Errorf("it has %d values; at most %d are possible", len(p.Values), maxPolicyValues)
	case len(p.Values) > 0 && (!ascending(p.Values) || p.Values[0] < 0 || p.Values[len(p.Values)-1] > capacity || !slices.Contains(p.Values, p.Default)):
		return p, fmt.Errorf("its values must ascend, lie between 0 and the capacity, %d, and contain the default, %d", capacity, p.Default)
	case w.GetRange() == nil:
		return p, nil
	}
	r := AmountRange{Min: w.GetRange().GetMin(), Max: w.GetRange().GetMax(), Step: w.GetRange().GetStep()}
	if r.Max == 0 {
		r.Max = capacity
	}
	p.Range = &r
	switch {
	case r.Min < 0 || r.Min > p.Default || p.Default > r.Max || r.Max > capacity || r.Step < 0:
		return p, fmt.Errorf("its range from %d to %d must lie between 0 and the capacity, %d, and contain the default, %d", r.Min, r.Max, capacity, p.Default)
	case r.Step > 0 && ((p.Default-r.Min)%r.Step != 0 || (r.Max-r.Min)%r.Step != 0 || r.Step > capacity-r.Min):
		return p, fmt.Errorf("its default, %d, and its greatest amount, %d, must be whole steps of %d above %d", p.Default, r.Max, r.Step, r.Min)
	}
	return p, nil
}

func ascending(values []int64) bool {
	for i := 1; i < len(values); i++ {
		if values[i] <= values[i-1] {
			return false
		}
	}
	return true
}
