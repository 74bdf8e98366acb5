package features

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// The bounds of a Set.
const (
	// MaxFeatures bounds the features of a node, so that the file stays below the 64 KiB
	// that Node Feature Discovery reads.
	MaxFeatures = 256
	// maxOfBackend bounds the features of one backend, without the vendor's labels.
	maxOfBackend = 64
	// maxValues bounds the different values of one attribute.
	maxValues = 16
	// leastWait is the shortest time that published features of a backend stay while it has not
	// reported, even if its holdover is shorter.
	leastWait = time.Minute
)

// Set is all features of a node at one time. It is immutable.
type Set struct {
	// Values are the features, by name.
	Values map[string]string
	// Pending are the prefixes of features and vendor labels of backends that have not reported yet. Features that were
	// published with these prefixes stay.
	Pending []string
	// Problems are features that were cut or left out, in a fixed order.
	Problems []Problem
}

// Problem describes a feature that was cut or left out.
type Problem struct {
	Backend string
	Message string
}

// Finder computes the features of snapshots. It is not safe for concurrent use. The zero value
// is ready to use.
type Finder struct {
	// waiting has, for each backend that has not reported, when Find first missed it.
	waiting map[string]time.Time
}

// found is the features of one backend, and what they are computed from.
type found struct {
	backend    *inventory.Backend
	prefix     string
	attributes []string
	// replicas are those of the devices of all backends; read-only.
	replicas map[inventory.Key]int
	values   map[string]string
	problems []Problem
}

// Find computes the features of the profile's backends. replicas is how many containers may
// share a device; a device without an entry is not shared. The caller must not change it
// afterwards. The time is when to call Find again although nothing changes, because a holdover
// ends; zero means never.
func (f *Finder) Find(profile *config.Profile, snapshot *inventory.Snapshot, replicas map[inventory.Key]int, now time.Time) (*Set, time.Time) {
	known := map[string]*inventory.Backend{}
	for _, backend := range snapshot.Backends {
		known[backend.Name] = backend
	}
	set, next := &Set{Values: map[string]string{}}, time.Time{}
	waiting := map[string]time.Time{}
	byName := func(a, b config.Backend) int { return cmp.Compare(a.Name, b.Name) }
	for _, b := range slices.SortedFunc(slices.Values(profile.Backends), byName) {
		backend := known[b.Name]
		since, limit := now, time.Duration(b.Holdover)
		switch {
		case backend == nil:
			if before, ok := f.waiting[b.Name]; ok {
				since = before
			}
			waiting[b.Name] = since
			limit = max(limit, leastWait)
		case !backend.LostAt.IsZero():
			since = backend.LostAt
		}
		if backend == nil || !backend.LostAt.IsZero() {
			end := since.Add(limit)
			if !end.After(now) {
				continue
			}
			if next.IsZero() || end.Before(next) {
				next = end
			}
		}
		if backend == nil {
			set.Pending = append(append(set.Pending, b.FeaturePrefix), b.VendorLabels...)
			continue
		}
		n := &found{backend: backend, prefix: b.FeaturePrefix, attributes: b.Features, replicas: replicas, values: map[string]string{}}
		n.find()
		n.addVendorLabels(b.VendorLabels)
		set.add(n)
	}
	f.waiting = waiting
	return set, next
}

// add adds the features of one backend.
func (s *Set) add(n *found) {
	s.Problems = append(s.Problems, n.problems...)
	left := 0
	for _, name := range slices.Sorted(maps.Keys(n.values)) {
		if len(s.Values) == MaxFeatures {
			left++
			continue
		}
		s.Values[name] = n.values[name]
	}
	if left > 0 {
		s.Problems = append(s.Problems, Problem{n.backend.Name, fmt.Sprintf(
			"%d features are left out: the node has %d of other backends already; choose fewer with the setting features", left, MaxFeatures)})
	}
}

func (n *found) problem(format string, args ...any) {
	n.problems = append(n.problems, Problem{n.backend.Name, fmt.Sprintf(format, args...)})
}

// find adds the device counts of each class first, and then their attributes until the bound
// is reached.
func (n *found) find() {
	classes := map[string][]*inventory.Device{}
	listed, shares, shared := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, device := range n.backend.Devices {
		replicas := max(1, n.replicas[device.Key])
		classes[device.Class] = append(classes[device.Class], device)
		listed[device.ID], shares[device.ID] = true, replicas
		shared[device.Class] = shared[device.Class] || replicas > 1
	}
	names := slices.Sorted(maps.Keys(classes))
	full := false
	put := func(value string, parts ...string) { full = !n.put(value, parts...) || full }
	for _, class := range names {
		whole, partitions := count(classes[class], listed)
		if whole > 0 {
			put(strconv.Itoa(whole), class, "count")
		}
		if partitions > 0 {
			put(strconv.Itoa(partitions), class, "partitions")
		}
	}
	for _, class := range names {
		if shared[class] {
			n.describe(class, "replicas", classes[class], put, func(d *inventory.Device) (string, bool) {
				return strconv.Itoa(shares[d.ID]), true
			})
		}
	}
	for _, attribute := range n.attributes {
		for _, class := range names {
			n.describe(class, attribute, classes[class], put, func(d *inventory.Device) (string, bool) {
				return value(d, attribute)
			})
		}
	}
	if full {
		n.problem("more than %d features: the rest is left out; choose fewer with the setting features", maxOfBackend)
	}
}

// addVendorLabels adds the labels with these prefixes that the backend reports. Only then it is
// known whether a prefix is misspelt.
func (n *found) addVendorLabels(prefixes []string) {
	for _, prefix := range prefixes {
		has := func(l inventory.NodeLabel) bool { return within(l.Name, []string{prefix}) }
		if len(n.backend.Devices) > 0 && !slices.ContainsFunc(n.backend.NodeLabels, has) {
			n.problem("vendorLabels: the backend has no label with the prefix %q", prefix)
		}
	}
	for _, l := range n.backend.NodeLabels {
		if within(l.Name, prefixes) {
			n.values[l.Name] = l.ValueFor(n.replicas[inventory.Key{Backend: n.backend.Name, ID: l.Device}])
		}
	}
}

// count counts whole devices and partitions. A device that is not listed, but has listed
// partitions, counts, too.
func count(devices []*inventory.Device, listed map[string]bool) (whole, partitions int) {
	unlisted := map[string]bool{}
	for _, device := range devices {
		switch {
		case device.Parent == "":
			whole++
			continue
		case !listed[device.Parent]:
			unlisted[device.Parent] = true
		}
		partitions++
	}
	return whole + len(unlisted), partitions
}

// describe adds the features of an attribute of a class. value returns the attribute of a device.
func (n *found) describe(class, attribute string, devices []*inventory.Device, put func(value string, parts ...string),
	value func(*inventory.Device) (string, bool),
) {
	counts, raws := map[string]int{}, map[string]string{}
	reported := map[string]bool{}
	for _, device := range devices {
		raw, ok := value(device)
		if !ok {
			continue
		}
		label, problem := labelValue(raw)
		if before, ok := raws[label]; ok && before != raw && problem == "" {
			problem = fmt.Sprintf("is the same label as %q", before)
		}
		if problem != "" && len(reported) < maxValues && !reported[raw] {
			reported[raw] = true
			n.problem("%s %q of class %s %s", attribute, raw, class, problem)
		}
		if label == "" {
			continue
		}
		counts[label]++
		if _, ok := raws[label]; !ok {
			raws[label] = raw
		}
	}
	switch labels := slices.Sorted(maps.Keys(counts)); {
	case len(labels) == 1 && counts[labels[0]] == len(devices):
		put(labels[0], class, attribute)
	case len(labels) > maxValues:
		n.problem("%s is left out: the devices of class %s have %d different values, and at most %d are counted", attribute, class, len(labels), maxValues)
	default:
		for _, label := range labels {
			put(strconv.Itoa(counts[label]), class, attribute, label)
		}
	}
}

// put adds a feature; false if the backend has maxOfBackend already.
func (n *found) put(value string, parts ...string) bool {
	name, cut := labelName(n.prefix, parts)
	if before, ok := n.values[name]; ok {
		n.problem("%s = %s is left out: there is a feature of that name, %s", name, value, before)
		return true
	}
	if len(n.values) == maxOfBackend {
		return false
	}
	if cut {
		n.problem("a feature's name is too long and was cut: %s", name)
	}
	n.values[name] = value
	return true
}

// value returns an attribute or a capacity of a device as text. A version has
// the vendor's spelling if the backend reports that as <name>Full: a semantic version has no
// leading zeros. The capacity memory is formatted by [size].
func value(d *inventory.Device, name string) (string, bool) {
	if attribute, ok := d.Attributes.Get(name + "Full"); ok && attribute.String() != "" {
		return attribute.String(), true
	}
	if attribute, ok := d.Attributes.Get(name); ok {
		text := attribute.String()
		return text, text != ""
	}
	capacity, ok := d.Capacities.Get(name)
	if name == "memory" {
		return size(capacity), ok
	}
	return strconv.FormatInt(capacity, 10), ok
}

// size formats a number of bytes as vendors do in product names: rounded, in GiB such as 48G,
// or in MiB below 1 GiB. It is rounded since equal partitions may differ by some MiB, and
// drivers reserve some.
func size(bytes int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "G"}, {1 << 20, "M"}} {
		if bytes >= unit.bytes {
			return strconv.FormatInt(bytes/unit.bytes+bytes%unit.bytes*2/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10)
}
