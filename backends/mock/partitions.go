package mock

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxSlices bounds the slices of a device with potential partitions: the counters of a set.
const maxSlices = 32

var profileForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.]{0,15}$`)

func (p *partitions) check(at string, errs *sdk.FieldErrors) {
	switch {
	case p == nil:
		return
	case len(p.Profiles) == 0 && (p.Count < 1 || p.Count > maxPartitions):
		errs.Add(at+".count", "%d is out of range: 1 to %d", p.Count, maxPartitions)
	case len(p.Profiles) == 0:
		return
	case p.Count != 0 || p.ListParent:
		errs.Add(at, "profiles are of partitions that Prepare makes, count and listParent of others: give one of them")
	case p.Slices < 1 || p.Slices > maxSlices:
		errs.Add(at+".slices", "%d is out of range: 1 to %d", p.Slices, maxSlices)
	}
	for name, size := range p.Profiles {
		if !profileForm.MatchString(name) {
			errs.Add(at+".profiles", "%q is no name of a profile: at most 16 lower-case letters, digits and dots", name)
		}
		if size < 1 || size > p.Slices {
			errs.Add(at+".profiles."+name, "%d is out of range: 1 to %d, the slices of the device", size, p.Slices)
		}
	}
}

// slots are the slices of a device that a potential partition takes.
type slots struct {
	profile     string
	first, size int
}

func (s *slots) overlaps(o *slots) bool { return s.first < o.first+o.size && o.first < s.first+s.size }

// placements returns the potential partitions of a device: each profile at each multiple of its size. The
// scheduler takes the first that is free, so those come first that leave the lower slices to larger ones.
func (p *partitions) placements() (all []*slots) {
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		size := p.Profiles[name]
		for first := (p.Slices/size - 1) * size; first >= 0; first -= size {
			all = append(all, &slots{name, first, size})
		}
	}
	return all
}

// potential adds the potential partitions of one device.
func (x *expansion) potential(g *group, whole *spec, at string) {
	parent := whole.device.GetId()
	for _, place := range g.Partitions.placements() {
		f := whole.facts
		f.id = fmt.Sprintf("%s-%s-%d", parent, place.profile, place.first)
		s := x.device(g, f, place.size, g.Partitions.Slices, at)
		counters := map[string]int64{}
		for i := range place.size {
			counters[sliceName(place.first+i)] = 1
		}
		s.slots = place
		s.device.ParentId, s.device.Attributes["profile"] = parent, sdk.String(place.profile)
		s.device.Hooks = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}
		s.device.Consumes = []*backendv1.CounterConsumption{{CounterSet: setName(parent), Counters: counters}}
		x.specs = append(x.specs, s)
	}
}

func sliceName(i int) string { return fmt.Sprintf("slice-%d", i) }

var noLabel = regexp.MustCompile(`[^a-z0-9-]`)

// setName returns the name of a device's counter set, a DNS label.
func setName(device string) string {
	return strings.Trim(noLabel.ReplaceAllString(strings.ToLower(device), "-"), "-")
}

// counterSets returns those of the devices with potential partitions: each slice is there once.
func (v *view) counterSets() (sets []*sdk.CounterSet) {
	seen := map[string]bool{}
	for _, s := range v.specs {
		if s.slots == nil || seen[s.device.GetParentId()] {
			continue
		}
		seen[s.device.GetParentId()] = true
		counters := map[string]int64{}
		for i := range s.group.Partitions.Slices {
			counters[sliceName(i)] = 1
		}
		sets = append(sets, &sdk.CounterSet{Name: setName(s.device.GetParentId()), Counters: counters})
	}
	return sets
}

// partition returns the device, a potential partition as it exists or not.
func (v *view) partition(s *spec, e entry) *sdk.Device {
	if s.slots == nil {
		return s.device
	}
	d := proto.CloneOf(s.device)
	d.MadeFor = v.made[d.GetId()]
	if d.GetMadeFor() == "" && !e.Exists {
		d.Potential, d.Edits = true, nil
	}
	return d
}

// make does what Prepare is to do for a device: a potential partition exists afterwards, for the holder,
// and its edits are returned. isNew reports whether it did not exist before, also if make fails.
func (b *Backend) make(ctx context.Context, s *spec, holder string, h *prepare) (edits *sdk.Edits, isNew bool, err error) {
	id := s.device.GetId()
	if s.slots == nil {
		return nil, false, h.run(ctx, "prepare", id)
	}
	if isNew, err = b.occupy(s, holder); err != nil {
		return nil, false, fmt.Errorf("make %s: %w", id, err)
	}
	return proto.CloneOf(s.device.GetEdits()), isNew, h.run(ctx, "make", id)
}

// occupy takes the slices of a partition for a holder, unless it exists. isNew reports whether it took
// them.
func (b *Backend) occupy(s *spec, holder string) (isNew bool, err error) {
	v, id := b.now(), s.device.GetId()
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.made.Holder(id)
	if of == holder || of == "" && v.entry(s).Exists {
		return false, nil
	}
	if of == "" {
		for _, other := range v.specs {
			o := other.device
			exists := b.made.Holder(o.GetId()) != "" || v.entry(other).Exists
			if other != s && other.slots != nil && exists && o.GetParentId() == s.device.GetParentId() && other.slots.overlaps(s.slots) {
				return false, fmt.Errorf("its slices are in use by %s", o.GetId())
			}
		}
	}
	if err := b.made.Put(id, holder); err != nil {
		return false, err
	}
	b.changed()
	return of == "", nil
}

// unmake removes a partition that was made for the holder; it leaves others.
func (b *Backend) unmake(s *spec, holder string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.slots == nil || b.made.Holder(s.device.GetId()) != holder {
		return nil
	}
	if err := b.made.Remove(s.device.GetId()); err != nil {
		return err
	}
	b.changed()
	return nil
}

// changed has the loop publish. The caller holds mu.
func (b *Backend) changed() {
	b.version++
	if b.out != nil {
		b.out.Scan()
	}
}

// joined returns both edits; either may be nil.
func joined(a, b *sdk.Edits) *sdk.Edits {
	if a == nil {
		return b
	}
	proto.Merge(a, b)
	return a
}
