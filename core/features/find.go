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
	// MaxFeatures is how many features a node has at most. As lines of a file they
	// stay below the 64 KiB that Node Feature Discovery reads.
	MaxFeatures = 256
	// maxOfBackend is how many of them one backend may have.
	maxOfBackend = 64
	// maxValues is how many values of one attribute are counted.
	maxValues = 16
	// leastWait is how long the features of a backend that has yet to report are
	// waited for, even if it has no holdover.
	leastWait = time.Minute
)

// Set is all features of a node at one moment. It never changes.
type Set struct {
	// Values are the features, by name.
	Values map[string]string
	// Pending are prefixes of which nothing is known yet: their backends start.
	// What was published of them before still counts.
	Pending []string
	// Problems are what an operator must know, in a fixed order.
	Problems []Problem
}

// Problem is a sentence about features that had to be cut or left out.
type Problem struct {
	Backend string
	Message string
}

// Finder makes features of snapshots. It is not safe for concurrent use. The zero
// value is ready.
type Finder struct {
	// waiting is since when a backend that has never reported is waited for.
	waiting map[string]time.Time
}

// found is what was made of one backend's inventory, which never changes.
type found struct {
	backend    *inventory.Backend
	prefix     string
	attributes []string
	// replicas are those of all backends; nobody changes them.
	replicas map[inventory.Key]int
	values   map[string]string
	problems []Problem
}

// Find makes the features of the profile's backends. Replicas is how many containers
// may share a device; one that is missing is not shared. Nobody may change them any more.
// It returns, too, when to look again though nothing changes, because a holdover ends; zero
// means never.
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
			set.Pending = append(set.Pending, b.FeaturePrefix)
			continue
		}
		n := &found{backend: backend, prefix: b.FeaturePrefix, attributes: b.Features, replicas: replicas, values: map[string]string{}}
		n.find()
		set.add(n)
	}
	f.waiting = waiting
	return set, next
}

// add takes in the features of one backend.
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

// find counts the devices of each class, and then, as far as there is room, what
// their attributes are.
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

// count counts whole devices and partitions. A device of which only partitions are
// listed counts, too.
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

// describe says what an attribute of the devices of a class is, as value has it.
func (n *found) describe(class, attribute string, devices []*inventory.Device, put func(value string, parts ...string),
	value func(*inventory.Device) (string, bool),
) {
	counts, raws := map[string]int{}, map[string]string{}
	told := map[string]bool{}
	for _, device := range devices {
		raw, ok := value(device)
		if !ok {
			continue
		}
		label, problem := labelValue(raw)
		if before, ok := raws[label]; ok && before != raw && problem == "" {
			problem = fmt.Sprintf("is the same label as %q", before)
		}
		if problem != "" && len(told) < maxValues && !told[raw] {
			told[raw] = true
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

// put adds a feature; false if there is no room for it.
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

// value returns an attribute or a capacity of a device as text. A version is written as its
// vendor does if the backend reports that, too, as <name>Text: a semantic version has no
// leading zeros. [size] writes the capacity memory.
func value(d *inventory.Device, name string) (string, bool) {
	if attribute, ok := d.Attributes.Get(name + "Text"); ok && attribute.String() != "" {
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

// size writes a number of bytes as vendors name the memory of their devices: in GiB, such
// as 48G, or below that in MiB, rounded. Equal partitions may differ by some MiB, and
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
