package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/schema"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// SettingsError is the refusal of settings, by the backend's schema or by the backend
// itself.
type SettingsError struct {
	Fields []schema.FieldError
}

// Error lists the fields on one line.
func (e *SettingsError) Error() string { return "the settings are refused: " + fieldList(e.Fields) }

// fieldList lists the first errors on one line.
func fieldList(fields []schema.FieldError) string {
	const most = 8
	var parts []string
	for _, field := range fields[:min(len(fields), most)] {
		if field.Field == "" {
			parts = append(parts, field.Message)
		} else {
			parts = append(parts, field.Field+": "+field.Message)
		}
	}
	if more := len(fields) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// refusal turns the backend's own field errors into an error, nil if it has none.
func refusal(fields []*backendv1.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	const most = 64
	refused := &SettingsError{}
	for _, field := range fields[:min(len(fields), most)] {
		refused.Fields = append(refused.Fields, printableField(field.GetField(), field.GetMessage()))
	}
	return refused
}

// maxCheck bounds a check of settings or parameters against a schema; the check itself has
// 10 s of processor time.
const maxCheck = time.Minute

// errBrokenSchema is the error of an unusable schema; the settings then go to the backend
// unchecked.
var errBrokenSchema = errors.New("the backend describes its settings with a JSON schema that cannot be used")

// checkSettings checks settings against a backend's JSON schema. It returns nil, a
// *SettingsError, or an errBrokenSchema, also if the check exceeds limit.
func checkSettings(ctx context.Context, reaper *Reaper, text string, settings json.RawMessage, limit time.Duration) error {
	if text == "" {
		return nil
	}
	fields, err := checkAgainst(ctx, reaper, text, settings, limit)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errBrokenSchema, err)
	case len(fields) == 0:
		return nil
	}
	return &SettingsError{Fields: fields}
}

// checkAgainst checks a value against a backend's JSON schema, within limit. It returns
// the errors of the value, bounded and printable. The error is that of ctx, or the reason
// why the value could not be checked.
func checkAgainst(ctx context.Context, reaper *Reaper, text string, value json.RawMessage, limit time.Duration) ([]schema.FieldError, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fields, err := schema.Check(limited, reaper.run, text, value)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, fmt.Errorf("the check takes longer than %s", limit)
	case err != nil:
		return nil, errors.New(printable(err.Error(), 512))
	}
	for i, field := range fields {
		fields[i] = printableField(field.Field, field.Message)
	}
	return fields, nil
}

// printableField returns the error of a field in a bounded and printable form.
func printableField(field, message string) schema.FieldError {
	return schema.FieldError{Field: printable(field, 128), Message: printable(message, 512)}
}
