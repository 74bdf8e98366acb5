package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/text"
)

// rights are what settings come to with a manifest and the configuration, before anything runs.
type rights struct {
	// merged are the settings that the process gets, without presets.
	merged json.RawMessage
	// given is what the process gets, missing what of the manifest it does not get.
	given, missing sandbox.Needs
	// desc has what the manifest gives container edits.
	desc inventory.Description
	// refused is what the manifest says of settings that the program accepted before; nil if it accepts them.
	refused error
}

// same reports whether a process with these rights can serve settings with the others.
func (r rights) same(o rights) bool {
	return r.given.Equal(o.given) && r.desc.Edits.Equal(o.desc.Edits)
}

// resolve computes the rights for settings. It returns a *SettingsError if the manifest refuses them. If only its schema does,
// and the program accepted them before, another manifest has come since: then they run on as far as the program accepts them.
func (i *instance) resolve(settings json.RawMessage) (r rights, _ error) {
	m := i.program.Manifest
	resolved, err := plug.Resolve(i.ctx, m, settings)
	if i.ctx.Err() != nil {
		return rights{}, i.ended()
	}
	if err != nil {
		r.refused = refusedBy(err)
		if !bytes.Equal(settings, i.accepted) {
			return rights{}, r.refused
		}
		if resolved, err = plug.ResolveUnchecked(m, settings); err != nil {
			return rights{}, refusedBy(err)
		}
	}
	r.merged = resolved.Settings
	r.given, r.missing = i.spec.Sandbox.Give(resolved.Rights.Process)
	r.missing.Interfaces = nil // reported with the devices whose edits have them
	r.desc = m.Description
	r.desc.Attributes, r.desc.Edits, r.desc.Writes = m.Attributes(r.merged), resolved.Rights.Containers, r.given.Write
	r.desc.Look = m.Look(r.merged)
	return r, nil
}

// refusedBy returns what a manifest says of settings as an error.
func refusedBy(err error) *SettingsError {
	var fields manifest.FieldErrors
	if !errors.As(err, &fields) {
		return &SettingsError{unchecked: text.Shorten(err.Error(), maxMessage)}
	}
	refused := &SettingsError{}
	for _, field := range fields[:min(len(fields), maxFieldErrors)] {
		refused.add(field.Field, field.Message)
	}
	return refused
}
