package supervisor

import (
	"fmt"
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxFieldErrors bounds the fields of a refusal.
const maxFieldErrors = 64

// SettingsError is the refusal of settings, by the manifest or by the backend.
type SettingsError struct {
	// Fields are the errors of the fields, bounded.
	Fields []string
	// unchecked is why the manifest could not check the settings; "" if it could.
	unchecked string
}

// Error lists the first fields on one line.
func (e *SettingsError) Error() string {
	if e.unchecked != "" {
		return "the settings cannot be checked: " + e.unchecked + "; install a manifest that can be used"
	}
	const most = 8
	text := "the settings are refused: " + strings.Join(e.Fields[:min(len(e.Fields), most)], "; ")
	if more := len(e.Fields) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func (e *SettingsError) add(field, message string) {
	if field != "" {
		message = field + ": " + message
	}
	e.Fields = append(e.Fields, message)
}

// refusal turns the backend's field errors into an error, nil if it has none.
func refusal(fields []*backendv1.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	refused := &SettingsError{}
	for _, field := range fields[:min(len(fields), maxFieldErrors)] {
		refused.add(field.GetField(), field.GetMessage())
	}
	return refused
}
