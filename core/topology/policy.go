package topology

import "fmt"

// Policy is the goal of a choice. The zero value is [BestLinks].
type Policy string

// The policies, as the configuration names them. The package comment has what each
// compares, in which order.
const (
	// BestLinks wants devices that reach each other fast, and room for the next pod.
	BestLinks Policy = "best-links"
	// Spread wants many physical devices, each with little on it.
	Spread Policy = "spread"
	// Pack wants few physical devices, those first that are in use already.
	Pack Policy = "pack"
	// None does not choose: what comes first in the order of IDs.
	None Policy = "none"
)

// Policies are all of them, the default first.
func Policies() []Policy { return []Policy{BestLinks, Spread, Pack, None} }

// ParsePolicy is the policy of a name; "" is the default.
func ParsePolicy(name string) (Policy, error) {
	if name == "" {
		return BestLinks, nil
	}
	for _, p := range Policies() {
		if string(p) == name {
			return p, nil
		}
	}
	return "", fmt.Errorf("policy %q is unknown; it is one of %v", name, Policies())
}

// Options are those of one resource.
type Options struct {
	// Policy is [BestLinks] if empty or unknown.
	Policy Policy
	// WeakestFirst compares the weakest link before the sum of all, which is right
	// where devices pass data on in a ring.
	WeakestFirst bool
}

func (o Options) withDefaults() Options {
	if p, err := ParsePolicy(string(o.Policy)); err == nil {
		o.Policy = p
	} else {
		o.Policy = BestLinks
	}
	return o
}
