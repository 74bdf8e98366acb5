package nvidia

import (
	"maps"
	"slices"
	"strings"
)

// joined are the words of a set, sorted, as in a sentence.
func joined(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}
