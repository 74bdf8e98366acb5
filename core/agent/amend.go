package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// amend gives the CDI definitions of the units' devices the edits that Prepare
// answered, by device, and takes away those of the holder before: kubelet may hand
// a device on without a release that we see. Devices without an answer
// stay as they are. Others are the container's other units.
func (l lifecycle) amend(name string, units, others []resource.Unit, answers map[inventory.Key]*backendv1.ContainerEdits) error {
	v := l.agent.view.Load()
	var errs []error
	wrong := func(key inventory.Key, err error) {
		errs = append(errs, fmt.Errorf("device %s of %s: %w", key, name, err))
	}
	amendments := map[inventory.Key]inventory.Edits{}
	for _, unit := range units {
		key := unit.Device.Key
		answer, ok := answers[key]
		if _, twice := amendments[key]; twice || !ok {
			continue
		}
		edits, err := l.amendment(v, name, key, answer)
		if err != nil {
			wrong(key, err)
			continue
		}
		if edits != nil {
			amendments[key] = *edits
		}
	}
	if err := joinAmendments(slices.Concat(units, others), amendments); err != nil {
		return errors.Join(append(errs, fmt.Errorf("the edits that Prepare returned for %s: %w", name, err))...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(amendments), inventory.Key.Compare) {
		if err := l.agent.cdi.Amend(key, amendments[key]); err != nil {
			wrong(key, err)
		}
	}
	return errors.Join(errs...)
}

// amendment are the edits that Prepare answered for a device, checked; nil if they
// cannot be given to a container and there are none.
func (l lifecycle) amendment(v *view, name string, key inventory.Key, wire *backendv1.ContainerEdits) (*inventory.Edits, error) {
	backend, injection, ok := v.forAmend(name, key.Backend)
	if !ok {
		return nil, errors.New("the resource is no longer configured")
	}
	policy := l.agent.editPolicy(backend)
	policy.Declared = v.needs(key.Backend).Edits
	edits, omitted, err := inventory.ParseEdits(policy, wire)
	if err != nil {
		return nil, fmt.Errorf("Prepare returned edits that are refused: %w", err)
	}
	if omitted != "" {
		l.agent.log.Warn("Prepare returned edits that the configuration does not allow", "device", key.String(), "resource", name, "error", omitted)
	}
	switch {
	case injection != config.InjectPlain:
		return &edits, nil
	case edits.Empty():
		return nil, nil
	}
	return nil, fmt.Errorf("Prepare returned further edits, which injection %q cannot give to a container: use %q",
		config.InjectPlain, config.InjectCDI)
}

// joinAmendments gives the variables that amendments join the value that the
// container must have, in each of them: whichever the runtime applies last, that
// counts, also over what was answered to Allocate. A device that Prepare says
// nothing of counts with its own edits.
func joinAmendments(units []resource.Unit, amendments map[inventory.Key]inventory.Edits) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(amendments)), func(e inventory.Edits) bool { return len(e.Env) > 0 }) {
		return nil
	}
	amended := map[inventory.Key]*inventory.Device{}
	for _, unit := range units {
		d := *unit.Device
		d.Edits = overlay(d.Edits, amendments[d.Key])
		amended[d.Key] = &d
	}
	joined, err := inventory.JoinEnv(slices.SortedFunc(maps.Values(amended), func(a, b *inventory.Device) int { return a.Compare(b.Key) }))
	if err != nil {
		return err
	}
	for key, edits := range amendments {
		env := edits.Env.Map()
		for name := range edits.EnvSeparators.All() {
			env[name] = joined[name]
		}
		edits.Env, edits.EnvSeparators = inventory.Named(env), nil
		amendments[key] = edits
	}
	return nil
}

// overlay are the variables of a device's edits with those of an amendment in
// their place.
func overlay(base, amendment inventory.Edits) inventory.Edits {
	env, separators := maps.Collect(base.Env.All()), maps.Collect(base.EnvSeparators.All())
	for name, value := range amendment.Env.All() {
		env[name] = value
		delete(separators, name)
	}
	maps.Insert(separators, amendment.EnvSeparators.All())
	return inventory.Edits{Env: inventory.Named(env), EnvSeparators: inventory.Named(separators)}
}
