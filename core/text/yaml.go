package text

import (
	"fmt"
	"strings"
)

// List is a field with entries.
type List struct {
	Field   string
	Entries []string
}

// YAML returns the lists that have entries as a YAML mapping on one line, with entries of at most limit bytes; the number
// of the others follows.
func YAML(limit int, lists ...List) string {
	var fields []string
	more := 0
	for _, list := range lists {
		var shown []string
		for _, entry := range list.Entries {
			if strings.ContainsAny(entry, `[]{},:#'"\& @`) || strings.HasPrefix(entry, "*") {
				entry = "'" + strings.ReplaceAll(entry, "'", "''") + "'"
			}
			if limit -= len(entry) + len(", "); limit < 0 {
				more++
				continue
			}
			shown = append(shown, entry)
		}
		if len(shown) > 0 {
			fields = append(fields, list.Field+": ["+strings.Join(shown, ", ")+"]")
		}
	}
	mapping := "{" + strings.Join(fields, ", ") + "}"
	if more > 0 {
		mapping += fmt.Sprintf(", and %d more entries", more)
	}
	return mapping
}
