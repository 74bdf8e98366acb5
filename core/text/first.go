package text

import (
	"fmt"
	"strings"
)

// First returns the first names, at most limit, separated by commas, and how many more there are.
func First(names []string, limit int) string {
	list := strings.Join(names[:min(len(names), limit)], ", ")
	if more := len(names) - limit; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
