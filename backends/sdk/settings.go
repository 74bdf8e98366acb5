package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// FieldError is what is wrong with one field of the settings.
type FieldError struct {
	// Field is its path, such as devices[2].memory; "" for the settings as a whole.
	Field string
	// Message is what is wrong and what would be right.
	Message string
}

// FieldErrors are the invalid fields of settings, an error for [Configurer.Configure].
type FieldErrors []FieldError

// Error returns a line for each field.
func (e FieldErrors) Error() string {
	texts := make([]string, 0, len(e))
	for _, f := range e {
		if f.Field == "" {
			texts = append(texts, f.Message)
		} else {
			texts = append(texts, f.Field+": "+f.Message)
		}
	}
	return strings.Join(texts, "\n")
}

// Add appends an error.
func (e *FieldErrors) Add(field, format string, args ...any) {
	*e = append(*e, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Between adds an error for a duration out of bounds, and returns it.
func (e *FieldErrors) Between(field string, d Duration, least, most time.Duration) time.Duration {
	if v := time.Duration(d); v < least || v > most {
		e.Add(field, "%v must be between %v and %v", v, least, most)
	}
	return time.Duration(d)
}

// Err returns e as an error, nil if it is empty.
func (e FieldErrors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Duration is a time.Duration in settings, written as in Go: 30s, 1m.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write it as 30s or 1m", text)
	}
	*d = Duration(parsed)
	return nil
}

// fieldErrors returns the field errors of an error of Configure. Settings are what the schema accepts, so that of
// encoding/json that a value does not fit its field is about a number, such as 1.0.
func fieldErrors(err error) FieldErrors {
	var fields FieldErrors
	var unfit *json.UnmarshalTypeError
	switch {
	case errors.As(err, &fields):
		return fields
	case errors.As(err, &unfit):
		return FieldErrors{{Field: unfit.Field, Message: "the " + unfit.Value + " is not possible here"}}
	}
	return FieldErrors{{Message: err.Error()}}
}
