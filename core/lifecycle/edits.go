package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/resource"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// define checks the edits that Prepare returned for a container, by device, and writes the
// CDI definition with them that the container alone gets.
func (l *Lifecycle) define(r Request, starts []holders.Start, answers map[inventory.Key]*backendv1.ContainerEdits) error {
	resource := l.opts.Round().Resource(r.Resource)
	if resource == nil {
		return fmt.Errorf("resource %s is no longer configured", r.Resource)
	}
	var errs []error
	prepared := map[inventory.Key]inventory.Edits{}
	for _, u := range r.Units {
		key := u.Device.Key
		answer, ok := answers[key]
		if _, twice := prepared[key]; twice || !ok {
			continue
		}
		edits, err := l.checkEdits(resource, key, answer)
		if err != nil {
			errs = append(errs, fmt.Errorf("device %s of %s: %w", key, r.Resource, err))
			continue
		}
		prepared[key] = edits
	}
	if err := joinPrepared(r.Units, prepared); err != nil {
		errs = append(errs, fmt.Errorf("the edits that Prepare returned for %s: %w", r.Resource, err))
	}
	if len(errs) > 0 || resource.Injection == config.InjectPlain {
		return errors.Join(errs...)
	}
	if slices.ContainsFunc(starts, func(s holders.Start) bool { return s.Unprepared }) {
		return rejectEdits(r.Resource, prepared)
	}
	name, device := l.definition(r)
	d := cdi.HolderDefinition{Name: name, Device: device}
	for _, key := range slices.SortedFunc(maps.Keys(prepared), inventory.Key.Compare) {
		d.Edits = append(d.Edits, prepared[key])
	}
	if err := l.opts.Definitions.Define([]cdi.HolderDefinition{d}, l.liveDefinitions(device)); err != nil {
		return fmt.Errorf("the edits that Prepare returned for %s: %w", r.Resource, err)
	}
	return nil
}

// rejectEdits returns an error if there are edits for a container that got no CDI name for
// them.
func rejectEdits(resource string, prepared map[inventory.Key]inventory.Edits) error {
	for _, edits := range prepared {
		if !edits.Empty() {
			return fmt.Errorf("Prepare returned further edits for %s, which this container cannot get: "+
				"its devices did not have to be prepared when it was given them; create the pod again", resource)
		}
	}
	return nil
}

// liveDefinitions returns a function that reports whether a CDI name is that of a holder that
// has one of the devices, or of a claim with admin access to it. The function asks the book at its
// first call.
func (l *Lifecycle) liveDefinitions(devices ...inventory.Key) func(name string) bool {
	var names map[string]bool
	return func(name string) bool {
		if names == nil {
			names = map[string]bool{}
			for _, device := range devices {
				for _, h := range l.opts.Book.HoldersOf(device) {
					if h.Kind == holders.KindClaim {
						names[cdi.ClaimName(device, h.ID)] = true
						continue
					}
					names[cdi.HolderName(device, h.Resource, h.Units)] = true
				}
			}
		}
		return names[name] || l.opts.Book.Claims().Defines(name)
	}
}

// checkEdits checks the edits that Prepare returned for a device of a container.
func (l *Lifecycle) checkEdits(r *resource.Resource, key inventory.Key, wire *backendv1.ContainerEdits) (inventory.Edits, error) {
	edits, err := l.parseEdits(key, r.Name, wire)
	if err == nil && r.Injection == config.InjectPlain && !edits.Empty() {
		return edits, fmt.Errorf("Prepare returned further edits, which injection %q cannot give to a container: use %q",
			config.InjectPlain, config.InjectCDI)
	}
	return edits, err
}

// parseEdits checks the edits that Prepare returned for a device. what names the resource or the
// claim, for the log.
func (l *Lifecycle) parseEdits(key inventory.Key, what string, wire *backendv1.ContainerEdits) (inventory.Edits, error) {
	v := l.opts.Round()
	backend := v.Profile.Backend(key.Backend)
	if backend == nil {
		return inventory.Edits{}, errors.New("its backend is no longer configured")
	}
	policy := profile.EditPolicy(backend, l.opts.Host).With(v.Description(key.Backend))
	edits, omitted, err := inventory.ParseEdits(policy, wire)
	if err != nil {
		return edits, fmt.Errorf("Prepare returned edits that are refused: %w", err)
	}
	if omitted != "" {
		l.log.Warn("edits of Prepare left out: the configuration does not allow them", "device", key.String(), "resource", what, "error", omitted)
	}
	return edits, nil
}

// joinPrepared joins variables over all devices of the container. It uses
// the value of Prepare's edits, or else the device's own. The container gets these values, not
// those of its allocation.
func joinPrepared(units []Unit, prepared map[inventory.Key]inventory.Edits) error {
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

// overlay returns the variables of a device's edits, replaced by those that Prepare
// returned.
func overlay(base, further inventory.Edits) inventory.Edits {
	env, separators := maps.Collect(base.Env.All()), maps.Collect(base.EnvSeparators.All())
	for name, value := range further.Env.All() {
		env[name] = value
		delete(separators, name)
	}
	maps.Insert(separators, further.EnvSeparators.All())
	return inventory.Edits{Env: inventory.Named(env), EnvSeparators: inventory.Named(separators)}
}
