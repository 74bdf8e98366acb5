package plug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/reference"
)

// Resolved is what a manifest comes to for the settings of a backend.
type Resolved struct {
	// Settings are those that the program gets, without presets.
	Settings json.RawMessage
	Rights   manifest.Rights
}

// Resolve merges and checks settings, and returns their rights. The error is a [manifest.FieldErrors] with all that is wrong
// with the settings; then they are merged as far as possible, and have no rights. Another error says that the manifest cannot
// be used for them.
func Resolve(ctx context.Context, m *manifest.Manifest, settings json.RawMessage) (Resolved, error) {
	merged, err := m.Merge(settings)
	r := Resolved{Settings: merged}
	var errs, more manifest.FieldErrors
	if err != nil && !errors.As(err, &errs) {
		return r, err
	}
	if err := m.Check(ctx, merged); errors.As(err, &more) {
		errs = append(errs, more...)
	} else if err != nil {
		return r, schemaError(err)
	}
	if errs != nil {
		return r, errs
	}
	r.Rights, err = rightsOf(m, merged)
	return r, err
}

// ResolveUnchecked is Resolve without the schema, for settings that another version of the manifest accepted. Without a preset
// that they name they have no rights either.
func ResolveUnchecked(m *manifest.Manifest, settings json.RawMessage) (r Resolved, err error) {
	if r.Settings, err = m.Merge(settings); err == nil {
		r.Rights, err = rightsOf(m, r.Settings)
	}
	return r, err
}

func rightsOf(m *manifest.Manifest, merged json.RawMessage) (manifest.Rights, error) {
	rights, err := m.Rights(merged)
	if err != nil && !errors.As(err, new(manifest.FieldErrors)) {
		err = schemaError(err)
	}
	return rights, err
}

func schemaError(err error) error {
	return fmt.Errorf("the schema of settings in the manifest cannot be used: %w", err)
}

// CheckConfig checks a configuration, which data has, by the manifests of the programs in a directory: the settings of all
// backends, and the names by which resources select devices. A backend without a usable manifest is left out: what is wrong with
// it is a problem of that backend alone. The error is a [config.Errors].
func CheckConfig(ctx context.Context, dir, file string, data []byte, c *config.NodeConfig) error {
	var errs config.Errors
	positions := config.PositionsIn(data)
	manifests := map[string]*manifest.Manifest{}
	refuse := func(field, message string) {
		errs = append(errs, config.Error{File: file, Position: positions.Of(field), Field: field, Message: message})
	}
	for i := range c.Profiles {
		var described []*inventory.Backend
		for j := range c.Profiles[i].Backends {
			b := &c.Profiles[i].Backends[j]
			m, known := manifests[b.Command]
			if !known {
				m, _ = manifest.Load(ManifestFile(dir, b.Command)) // nil with an error, which the backend's start reports
				manifests[b.Command] = m
			}
			if m == nil {
				continue
			}
			resolved, err := Resolve(ctx, m, json.RawMessage(b.Settings))
			if err == nil {
				described = append(described, Describe(b.Name, m, resolved))
			}
			var refused manifest.FieldErrors
			if !errors.As(err, &refused) {
				continue
			}
			at := fmt.Sprintf("profiles[%d].backends[%d].settings", i, j)
			for _, f := range refused {
				refuse(FieldOf(at, f.Field), f.Message)
			}
		}
		for _, u := range reference.Find(&c.Profiles[i]).Unknown(described) {
			if u.Empties {
				refuse(fmt.Sprintf("profiles[%d].%s", i, u.Field), u.Message)
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// Describe returns a backend, by its name in a profile, as its manifest has it for its settings.
func Describe(name string, m *manifest.Manifest, resolved Resolved) *inventory.Backend {
	b := &inventory.Backend{Name: name, Description: m.Description}
	b.Description.Attributes = m.Attributes(resolved.Settings)
	return b
}

// FieldOf returns the path of a field in settings whose path is at.
func FieldOf(at, field string) string {
	if field != "" && field[0] != '[' {
		at += "."
	}
	return at + field
}
