package supervisor

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// SettingsError is a backend's refusal of settings.
type SettingsError struct {
	// Fields are the backend's errors, bounded and printable.
	Fields []string
}

// Error lists the first fields on one line.
func (e *SettingsError) Error() string {
	const most = 8
	text := "the settings are refused: " + strings.Join(e.Fields[:min(len(e.Fields), most)], "; ")
	if more := len(e.Fields) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// refusal turns the backend's field errors into an error, nil if it has none.
func refusal(fields []*backendv1.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	const most = 64
	refused := &SettingsError{}
	for _, field := range fields[:min(len(fields), most)] {
		message := text.Printable(field.GetMessage(), 512)
		if path := text.Printable(field.GetField(), 128); path != "" {
			message = path + ": " + message
		}
		refused.Fields = append(refused.Fields, message)
	}
	return refused
}
