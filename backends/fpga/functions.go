package fpga

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/intel"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// In the mode dynamic a region is listed as a potential device for each function that a bitstream on the
// node has for it. All of them consume the one region. Prepare programs the region, and the record has for whom.
// What a region has without a record is nobody's: it stays in the region after Release, and another function may
// replace it.

// maxFunctions bounds the devices of a region.
const maxFunctions = 64

// divides reports whether claims have a region programmed by the function that they request.
func (s *settings) divides(r driver.Region) bool {
	return s.Mode == modeDynamic && r.Kind == driver.Port && r.Interface != "" && s.programs(r)
}

// fitting returns the functions that a region can have, each once, and problems.
func (v vendor) fitting(r driver.Region) (all []bitstream.Function, problems []string) {
	for _, f := range r.Fitting {
		same := func(o bitstream.Function) bool { return functionID(r.ID, o) == functionID(r.ID, f) }
		switch i := slices.IndexFunc(all, same); {
		case i >= 0:
			problems = append(problems, fmt.Sprintf("%s: the bitstream %s is left out: %s has the same function", r.ID, f.File, all[i].File))
		case len(all) == maxFunctions || len(functionID(r.ID, f)) > maxName:
			problems = append(problems, fmt.Sprintf("%s: the bitstream %s is left out: a region may have %d functions, with IDs of at most %d bytes", r.ID, f.File, maxFunctions, maxName))
		default:
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		problems = append(problems, fmt.Sprintf("%s: no claim can have the region: no .gbs in %s is for its interface %s", r.ID, v.cfg.Bitstreams, r.Interface))
	}
	return all, problems
}

// functionID returns the ID of the potential device of a function in a region.
func functionID(region string, f bitstream.Function) string { return region + "-af-" + f.ID[:12] }

// Expand implements [engine.Expander].
func (v vendor) Expand(d *engine.KnownDevice, listed *sdk.Device) (all []*sdk.Device, problems []string) {
	r := regionIn(d.Stable)
	if !v.cfg.divides(r) {
		return []*sdk.Device{listed}, nil
	}
	functions, problems := v.fitting(r)
	for _, f := range functions {
		x := v.potential(r, listed, functionID(r.ID, f))
		x.Attributes["functionID"] = sdk.String(f.ID)
		if name, err := intel.AFName(f.Interface, f.ID); err == nil {
			x.Attributes["functionName"] = sdk.String(strings.TrimPrefix(name, intel.Domain+"/"))
		}
		if len(f.File) <= maxText {
			x.Attributes["bitstream"] = sdk.String(f.File)
		}
		all = append(all, x)
	}
	for id := range v.cfg.made.Devices() { // a bitstream may be gone while a claim has its function
		if strings.HasPrefix(id, r.ID+"-af-") && !slices.ContainsFunc(all, func(x *sdk.Device) bool { return x.GetId() == id }) {
			all = append(all, v.potential(r, listed, id))
		}
	}
	return all, problems
}

// potential returns the device of a function in a region.
func (v vendor) potential(r driver.Region, listed *sdk.Device, id string) *sdk.Device {
	x := proto.CloneOf(listed)
	x.Id, x.Class, x.ParentId, x.ResetGroup = id, classAF, r.ID, r.ID
	x.Hooks, x.SlowToPrepare = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}, true
	x.Consumes = []*backendv1.CounterConsumption{{CounterSet: setOf(r.ID), Counters: map[string]int64{"region": 1}}}
	if x.MadeFor = v.cfg.made.Holder(id); x.GetMadeFor() == "" {
		x.Potential, x.Edits = true, nil
	}
	delete(x.Attributes, "functionID")
	delete(x.Attributes, "functionName")
	return x
}

var noLabel = regexp.MustCompile(`[^a-z0-9-]`)

// setOf returns the name of a region's counter set, a DNS label.
func setOf(region string) string {
	return strings.Trim(noLabel.ReplaceAllString(strings.ToLower(region), "-"), "-")
}

// CounterSets implements [engine.Divider].
func (v vendor) CounterSets(units []*engine.KnownUnit) (sets []*sdk.CounterSet) {
	for _, u := range units {
		for _, d := range u.Unit.Devices {
			if r := regionIn(d); v.cfg.divides(r) {
				sets = append(sets, &sdk.CounterSet{Name: setOf(r.ID), Counters: map[string]int64{"region": 1}})
			}
		}
	}
	return sets
}

// place is where a function is to be.
type place struct {
	target   engine.Target
	function bitstream.Function
}

// places returns those of the devices that are functions, by ID.
func (b *Backend) places(ctx context.Context, cfg *config, ids []string) (map[string]place, error) {
	all := map[string]place{}
	if cfg.Mode != modeDynamic {
		return all, nil
	}
	regions := map[string]string{}
	err := b.Do(ctx, func(known engine.Known) {
		for _, u := range known.Units() {
			for _, d := range u.Unit.Devices {
				r := regionIn(d)
				for _, f := range r.Fitting {
					if id := functionID(r.ID, f); slices.Contains(ids, id) && all[id].function.ID == "" && cfg.divides(r) {
						all[id], regions[id] = place{function: f}, r.ID
					}
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for id, region := range regions {
		t, err := b.Find(ctx, []string{region})
		if err != nil {
			return nil, err
		}
		if len(t.Devices) == 1 {
			all[id] = place{t.Devices[0], all[id].function}
		}
	}
	return all, nil
}

// makeAll has the functions in their regions, and returns the edits of the regions. If it fails, none is made
// that was not made before.
func (b *Backend) makeAll(ctx context.Context, cfg *config, p sdk.Preparation, places map[string]place) (edits map[string]*sdk.Edits, err error) {
	edits = map[string]*sdk.Edits{}
	var isNew []string
	defer func() {
		if err != nil && len(isNew) > 0 {
			err = errors.Join(err, cfg.made.Remove(isNew...))
		}
		err = errors.Join(err, b.relist(ctx))
	}()
	for _, device := range p.Devices {
		at, ok := places[device.ID]
		if !ok {
			continue
		}
		holder := cfg.made.Holder(device.ID)
		if holder == "" {
			isNew = append(isNew, device.ID)
		}
		if edits[device.ID], err = b.make(ctx, cfg, p, device.ID, at); err != nil {
			return nil, fmt.Errorf("%s: %w", device.ID, err)
		}
	}
	return edits, nil
}

// make has one function in its region.
func (b *Backend) make(ctx context.Context, cfg *config, p sdk.Preparation, id string, at place) (*sdk.Edits, error) {
	region := at.target.Device.ID
	for other, holder := range cfg.made.Devices() {
		if strings.HasPrefix(other, region+"-af-") && (other != id || holder != p.Holder.ID) {
			return nil, fmt.Errorf("the region has %s for another claim", other)
		}
	}
	if err := cfg.made.Put(id, p.Holder.ID); err != nil {
		return nil, err
	}
	one := preparation{b: b, cfg: cfg, target: targetOf(at.target), resource: p.Resource, file: at.function.File}
	if err := one.run(ctx); err != nil {
		return nil, err
	}
	is, err := one.scan(ctx, false)
	if err != nil {
		return nil, err
	}
	if is.region.State == driver.Loaded && is.region.Function != at.function.ID {
		return nil, fmt.Errorf("%s has the function %s now, and was to have %s: the file %s may have been replaced: try again",
			is.Device.Name, is.region.Function, at.function.ID, at.function.File)
	}
	if is.Device.EditsErr != nil {
		return nil, is.Device.EditsErr
	}
	return is.Device.Edits, nil
}

// relist has the devices listed again, after the record changed.
func (b *Backend) relist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaimLimit)
	defer cancel()
	return b.Do(ctx, func(engine.Known) {})
}

// Release implements [sdk.Releaser]. The function stays in the region until it gets another one.
func (b *Backend) Release(ctx context.Context, holder sdk.Holder, devices []sdk.HeldDevice) (map[string]error, error) {
	cfg, failed := b.config(), map[string]error{}
	for _, device := range devices {
		if cfg.made == nil || cfg.made.Holder(device.ID) != holder.ID {
			continue
		}
		if err := cfg.made.Remove(device.ID); err != nil {
			failed[device.ID] = err
		}
	}
	return failed, b.relist(ctx)
}

// Reset implements [sdk.Resetter]. Functions are reset with their regions.
func (b *Backend) Reset(ctx context.Context, devices []string) ([]*sdk.ResetResult, error) {
	places, err := b.places(ctx, b.config(), devices)
	if err != nil || len(places) == 0 {
		return b.Engine.Reset(ctx, devices)
	}
	region := func(id string) string {
		if at, ok := places[id]; ok {
			return at.target.Device.ID
		}
		return id
	}
	var regions []string
	for _, id := range devices {
		if !slices.Contains(regions, region(id)) {
			regions = append(regions, region(id))
		}
	}
	results, err := b.Engine.Reset(ctx, regions)
	var all []*sdk.ResetResult
	for _, result := range results {
		for _, id := range devices {
			if region(id) == result.GetDeviceId() {
				all = append(all, &sdk.ResetResult{DeviceId: id, Recovered: result.GetRecovered(), Message: result.GetMessage()})
			}
		}
	}
	return all, err
}
