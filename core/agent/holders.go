package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// define writes the definition of what the container alone gets: the edits that Prepare
// answered, by device.
func (l lifecycle) define(name string, starting deviceplugin.Starting, starts []holders.Start, answers map[inventory.Key]*backendv1.ContainerEdits) error {
	v := l.agent.view.Load()
	var errs []error
	prepared := map[inventory.Key]inventory.Edits{}
	for _, unit := range starting.Units {
		key := unit.Device.Key
		answer, ok := answers[key]
		if _, twice := prepared[key]; twice || !ok {
			continue
		}
		edits, err := l.checkEdits(v, name, key, answer)
		if err != nil {
			errs = append(errs, fmt.Errorf("device %s of %s: %w", key, name, err))
			continue
		}
		prepared[key] = edits
	}
	units := slices.Concat(starting.Units, starting.Others)
	if err := joinPrepared(units, prepared); err != nil {
		errs = append(errs, fmt.Errorf("the edits that Prepare returned for %s: %w", name, err))
	}
	if r := v.Resource(name); len(errs) > 0 || r == nil || r.Injection == config.InjectPlain {
		return errors.Join(errs...)
	}
	if slices.ContainsFunc(starts, func(s holders.Start) bool { return s.Unannounced }) {
		return unnamed(name, prepared)
	}
	first := firstDevice(units)
	d := cdi.HolderDefinition{Name: cdi.HolderName(first.Backend, name, starting.IDs), Device: first}
	for _, key := range slices.SortedFunc(maps.Keys(prepared), inventory.Key.Compare) {
		d.Edits = append(d.Edits, prepared[key])
	}
	if err := l.agent.cdi.Define(d, l.agent.liveHolders(first)); err != nil {
		return fmt.Errorf("the edits that Prepare returned for %s: %w", name, err)
	}
	return nil
}

// unnamed is an error if there are edits for a container whose answer to Allocate does not
// have the name of a definition for them.
func unnamed(name string, prepared map[inventory.Key]inventory.Edits) error {
	for _, edits := range prepared {
		if !edits.Empty() {
			return fmt.Errorf("Prepare returned further edits for %s, which this container cannot get: "+
				"its devices did not have to be prepared when it was given them; create the pod again", name)
		}
	}
	return nil
}

// firstDevice is the device of the unit whose ID is the first.
func firstDevice(units []resource.Unit) inventory.Key {
	first := units[0]
	for _, u := range units[1:] {
		if u.ID < first.ID {
			first = u
		}
	}
	return first.Device.Key
}

// liveHolders reports whether a name is that of the definition of a holder that has the
// device. It asks the book at its first call.
func (a *Agent) liveHolders(device inventory.Key) func(name string) bool {
	var names map[string]bool
	return func(name string) bool {
		if names == nil {
			names = map[string]bool{}
			for _, given := range a.book.Given(device) {
				names[cdi.HolderName(device.Backend, given.Resource, given.Units)] = true
			}
		}
		return names[name]
	}
}

// checkEdits checks the edits that Prepare answered for a device.
func (l lifecycle) checkEdits(v *round.Round, name string, key inventory.Key, wire *backendv1.ContainerEdits) (inventory.Edits, error) {
	backend, r := v.Profile.Backend(key.Backend), v.Resource(name)
	if backend == nil || r == nil {
		return inventory.Edits{}, errors.New("the resource is no longer configured")
	}
	policy := profile.EditPolicy(backend, l.agent.opts.HostPaths.nodes())
	policy.Declared = v.Description(key.Backend).Needs.Edits
	edits, omitted, err := inventory.ParseEdits(policy, wire)
	if err != nil {
		return edits, fmt.Errorf("Prepare returned edits that are refused: %w", err)
	}
	if omitted != "" {
		l.agent.log.Warn("Prepare returned edits that the configuration does not allow", "device", key.String(), "resource", name, "error", omitted)
	}
	if r.Injection == config.InjectPlain && !edits.Empty() {
		return edits, fmt.Errorf("Prepare returned further edits, which injection %q cannot give to a container: use %q",
			config.InjectPlain, config.InjectCDI)
	}
	return edits, nil
}

// joinPrepared gives the variables that prepared edits join the value that the container
// must have, which counts over what was answered to Allocate. A device that Prepare
// returned nothing for counts with its own edits.
func joinPrepared(units []resource.Unit, prepared map[inventory.Key]inventory.Edits) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(prepared)), func(e inventory.Edits) bool { return len(e.Env) > 0 }) {
		return nil
	}
	devices := map[inventory.Key]*inventory.Device{}
	for _, unit := range units {
		d := *unit.Device
		d.Edits = overlay(d.Edits, prepared[d.Key])
		devices[d.Key] = &d
	}
	joined, err := inventory.JoinEnv(slices.SortedFunc(maps.Values(devices), func(a, b *inventory.Device) int { return a.Compare(b.Key) }))
	if err != nil {
		return err
	}
	for key, edits := range prepared {
		env := edits.Env.Map()
		for name := range edits.EnvSeparators.All() {
			env[name] = joined[name]
		}
		edits.Env, edits.EnvSeparators = inventory.Named(env), nil
		prepared[key] = edits
	}
	return nil
}

// overlay are the variables of a device's edits with those that Prepare returned in their
// place.
func overlay(base, further inventory.Edits) inventory.Edits {
	env, separators := maps.Collect(base.Env.All()), maps.Collect(base.EnvSeparators.All())
	for name, value := range further.Env.All() {
		env[name] = value
		delete(separators, name)
	}
	maps.Insert(separators, further.EnvSeparators.All())
	return inventory.Edits{Env: inventory.Named(env), EnvSeparators: inventory.Named(separators)}
}
