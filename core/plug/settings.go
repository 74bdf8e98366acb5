package plug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/manifest"
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
	if r.Rights, err = m.Rights(merged); err != nil && !errors.As(err, &errs) {
		err = schemaError(err)
	}
	return r, err
}

func schemaError(err error) error {
	return fmt.Errorf("the schema of settings in the manifest cannot be used: %w", err)
}

// CheckSettings checks the settings of all backends of a configuration, which data has, by the manifests of their programs in
// a directory. A backend without a usable manifest is left out: what is wrong with it is a problem of that backend alone. The
// error is a [config.Errors].
func CheckSettings(ctx context.Context, dir, file string, data []byte, c *config.NodeConfig) error {
	var errs config.Errors
	positions := config.PositionsIn(data)
	manifests := map[string]*manifest.Manifest{}
	for i := range c.Profiles {
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
			var refused manifest.FieldErrors
			if _, err := Resolve(ctx, m, json.RawMessage(b.Settings)); !errors.As(err, &refused) {
				continue
			}
			at := fmt.Sprintf("profiles[%d].backends[%d].settings", i, j)
			for _, f := range refused {
				field := FieldOf(at, f.Field)
				errs = append(errs, config.Error{File: file, Position: positions.Of(field), Field: field, Message: f.Message})
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// FieldOf returns the path of a field in settings whose path is at.
func FieldOf(at, field string) string {
	if field != "" && field[0] != '[' {
		at += "."
	}
	return at + field
}
