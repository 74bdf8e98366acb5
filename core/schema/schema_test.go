package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Verifies that a schema whose check is expensive ends the child process, with an error that
// has the limit.
func TestCheckOfAHostileSchema(t *testing.T) {
	nested := `{"$ref": "#/$defs/0", "$defs": {`
	for i := range 64 {
		nested += fmt.Sprintf(`"%d": {"anyOf": [{"$ref": "#/$defs/%d"}, {"$ref": "#/$defs/%d"}]}, `, i, i+1, i+1)
	}
	nested += `"64": {"type": "string"}}}`
	patterns := `{"allOf": [`
	for i := range 12 {
		patterns += fmt.Sprintf(`{"pattern": "%d%s"}, `, i, strings.Repeat("(abcdefgh){1000}", 300))
	}
	patterns += `{}]}`
	for name, c := range map[string]struct {
		schema string
		limit  time.Duration
		want   string
	}{
		"nested anyOf":        {nested, 300 * time.Millisecond, "killed"},
		"regular expressions": {patterns, time.Minute, "128 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			fields, err := Check(ctx, (*exec.Cmd).Run, c.schema, json.RawMessage(`{}`))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check = %v, %v; want an error with %q", fields, err, c.want)
			}
		})
	}
}

// Verifies that the number of errors and the output of a check are bounded.
func TestCheckReportsFewErrors(t *testing.T) {
	properties, settings := map[string]any{}, map[string]any{}
	for i := range 2 * maxFields {
		properties[fmt.Sprint("field", i)], settings[fmt.Sprint("field", i)] = map[string]string{"type": "string"}, i
	}
	schema, _ := json.Marshal(map[string]any{"properties": properties})
	value, _ := json.Marshal(settings)
	fields, err := Check(t.Context(), (*exec.Cmd).Run, string(schema), value)
	if err != nil || len(fields) != maxFields {
		t.Errorf("Check = %d errors, %v; want %d", len(fields), err, maxFields)
	}
	long := `{"const": "` + strings.Repeat("x", 2*maxOutput) + `"}`
	fields, err = Check(t.Context(), (*exec.Cmd).Run, long, json.RawMessage(`{}`))
	if err != nil || len(fields) != 1 || len(fields[0].Message) != maxText {
		t.Errorf("Check = %d errors, %v; want one with a text of %d bytes", len(fields), err, maxText)
	}
}
