package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// A resource with placeholders makes at most maxNames names while the agent runs: the first
// nameBurst immediately, then one in each nameInterval. Each name is a socket and a
// registration, and kubelet never removes one from the Node's status.
const (
	maxNames     = 256
	nameBurst    = 64
	nameInterval = 10 * time.Second
)

// budget counts the names that a template has made since the agent started.
type budget struct {
	made    map[string]bool
	limiter *rate.Limiter
}

func newBudget() *budget {
	return &budget{made: map[string]bool{}, limiter: rate.NewLimiter(rate.Every(nameInterval), nameBurst)}
}

// kind is the devices that one rule selects and that have the same values for its
// placeholders. A generated name belongs to one kind.
type kind struct {
	rule   int
	name   string
	values []string
	// present reports whether there are any in the snapshot.
	present bool
	// place is the index of the resource in the table; -1 if these devices are left out, and
	// why is the reason.
	place int
	why   string
}

type kindKey struct {
	rule   int
	values string
}

// verbatim reports whether the name contains the values unchanged.
func (k *kind) verbatim() bool {
	for _, value := range k.values {
		if !strings.Contains(k.name, value) {
			return false
		}
	}
	return true
}

// slot is one resource of the table.
type slot struct {
	rule int
	name string
}

// names assigns generated names to kinds: a name belongs to one kind at a time. It stays with
// a kind that has no devices any more, until another kind makes the same name.
type names struct {
	rules []rule
	// written are the names without placeholders.
	written map[string]bool
	kinds   map[kindKey]*kind
	owners  map[string]*kind
	// budgets has the budgets by template, including those of earlier profiles.
	budgets map[string]*budget
	// retryAt is when a waiting kind may get its name; zero if none waits.
	retryAt time.Time
	// held has the names of resources with allocated devices.
	held map[string]bool
	// slots has the resources in order; places has the index in slots of each rule without
	// placeholders.
	slots  []slot
	places []int
}

func newNames(rules []rule) *names {
	n := &names{rules: rules, written: map[string]bool{}, kinds: map[kindKey]*kind{}, owners: map[string]*kind{}, budgets: map[string]*budget{}}
	for _, r := range rules {
		if len(r.placeholders) == 0 {
			n.written[r.Name] = true
		} else {
			n.budgets[r.Name] = newBudget()
		}
	}
	n.arrange()
	return n
}

func keyOf(rule int, values []string) kindKey {
	var b strings.Builder
	for _, value := range values {
		b.WriteString(strconv.Itoa(len(value)) + ":" + value)
	}
	return kindKey{rule, b.String()}
}

// kind returns the kind of these values; a new one has no place yet.
func (n *names) kind(rule int, name string, values []string) *kind {
	key := keyOf(rule, values)
	k := n.kinds[key]
	if k == nil {
		k = &kind{rule: rule, name: name, values: values, place: -1}
		n.kinds[key] = k
	}
	return k
}

// assign assigns names to the kinds that have devices. It keeps a reference to held.
func (n *names) assign(assigned [][]*assignment, held map[string]bool) {
	n.held, n.retryAt = held, time.Time{}
	for _, k := range n.kinds {
		k.present = false
	}
	for _, devices := range assigned {
		for _, a := range devices {
			if a.kind != nil {
				a.kind.present = true
			}
		}
	}
	var nameless []*kind
	for _, k := range n.kinds {
		if k.present && n.owners[k.name] != k {
			nameless = append(nameless, k)
		}
	}
	// Which of several gets a name must not depend on the order of devices.
	slices.SortFunc(nameless, func(a, b *kind) int {
		if c := cmp.Compare(a.rule, b.rule); c != 0 {
			return c
		}
		if a.verbatim() != b.verbatim() {
			if a.verbatim() {
				return -1
			}
			return 1
		}
		return slices.Compare(a.values, b.values)
	})
	for _, k := range nameless {
		n.assignTo(k)
	}
	n.keepHeld()
	for key, k := range n.kinds {
		if !k.present && n.owners[k.name] != k {
			delete(n.kinds, key)
		}
	}
	n.arrange()
}

// assignTo assigns a kind its name, or sets why it has none.
func (n *names) assignTo(k *kind) {
	r, owner := n.rules[k.rule], n.owners[k.name]
	b := n.budgets[r.Name]
	k.place = -1
	const advice = "this device is left out, as pods could not tell them apart: give one of them a resource of its own before this one"
	switch {
	case n.written[k.name]:
		k.why = fmt.Sprintf("resource %s: %s makes the name %s, which is that of another resource; %s", r.Name, n.describe(k), k.name, advice)
	case owner != nil && owner.present && owner.rule != k.rule:
		k.why = fmt.Sprintf("resource %s: %s makes the name %s, which devices of resource %s have by %s; %s",
			r.Name, n.describe(k), k.name, n.rules[owner.rule].Name, n.describe(owner), advice)
	case owner != nil && owner.present:
		k.why = fmt.Sprintf("resource %s: %s makes the name %s, which other devices have by %s; %s", r.Name, n.describe(k), k.name, n.describe(owner), advice)
	case owner == nil && !b.made[k.name] && len(b.made) >= maxNames:
		k.why = fmt.Sprintf("resource %s: %s would make the name %s, but the resource has made %d names since the agent started, which is the limit; "+
			"this device is left out: choose placeholders with fewer values, or select fewer devices; a restart of the agent resets the count",
			r.Name, n.describe(k), k.name, maxNames)
	case owner == nil && !b.made[k.name] && !b.limiter.Allow():
		n.retryAt = time.Now().Add(nameInterval)
		k.why = fmt.Sprintf("resource %s: %s makes the name %s, which must wait: a resource makes %d names immediately, and then one every %v",
			r.Name, n.describe(k), k.name, nameBurst, nameInterval)
	default:
		n.owners[k.name], b.made[k.name], k.why = k, true, ""
	}
}

// inherit adds the names of an earlier profile that a template of this one may have made. A
// name stays with its kind if the template is the same.
func (n *names) inherit(before *names) {
	maps.Copy(n.budgets, before.budgets)
	for _, name := range slices.Sorted(maps.Keys(before.owners)) {
		if n.written[name] || n.owners[name] != nil {
			continue
		}
		owner := before.owners[name]
		same := func(r rule) bool { return r.Name == before.rules[owner.rule].Name }
		if i := slices.IndexFunc(n.rules, same); i >= 0 && owner.values != nil {
			k := &kind{rule: i, name: name, values: owner.values}
			n.kinds[keyOf(i, k.values)], n.owners[name] = k, k
			continue
		}
		n.keep(name)
	}
}

// keep adds a name without devices, for the first template that may have made it.
func (n *names) keep(name string) {
	i := slices.IndexFunc(n.rules, func(r rule) bool { return r.template.Matches(name) })
	if i >= 0 {
		n.owners[name] = &kind{rule: i, name: name}
		n.budgets[n.rules[i].Name].made[name] = true
	}
}

// keepHeld adds the names with allocated devices that no device makes any more, such as those
// of containers that started before the agent.
func (n *names) keepHeld() {
	for _, name := range slices.Sorted(maps.Keys(n.held)) {
		if !n.written[name] && n.owners[name] == nil {
			n.keep(name)
		}
	}
}

// describe returns the placeholders and values of a kind, as a clause for a problem.
func (n *names) describe(k *kind) string {
	parts := make([]string, len(k.values))
	for i, placeholder := range n.rules[k.rule].placeholders {
		parts[i] = fmt.Sprintf("%s %q", placeholder, k.values[i])
	}
	return strings.Join(parts, " with ")
}

// arrange sorts the resources by rule, and those of one rule by name.
func (n *names) arrange() {
	made := make([][]*kind, len(n.rules))
	for _, k := range n.owners {
		made[k.rule] = append(made[k.rule], k)
	}
	n.slots, n.places = nil, make([]int, len(n.rules))
	for i, r := range n.rules {
		if len(r.placeholders) == 0 {
			n.places[i] = len(n.slots)
			n.slots = append(n.slots, slot{i, r.Name})
			continue
		}
		slices.SortFunc(made[i], func(a, b *kind) int { return strings.Compare(a.name, b.name) })
		for _, k := range made[i] {
			k.place = len(n.slots)
			n.slots = append(n.slots, slot{i, k.name})
		}
	}
}

// place returns the index of a device's resource in the table; -1 for none.
func (n *names) place(a *assignment) int {
	switch {
	case a.rule < 0:
		return -1
	case a.kind != nil:
		return a.kind.place
	}
	return n.places[a.rule]
}
