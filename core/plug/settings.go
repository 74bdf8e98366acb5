package plug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
