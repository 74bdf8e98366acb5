package manifest

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
)

// Paused returns the label of a node, as KEY=VALUE, under which a program with these pauses must not run; "" if it may run,
// as it does while the labels are not known. Annotations among the labels, as package profile has them, don't count.
func Paused(pauses []Pause, labels map[string]string) string {
	if len(pauses) == 0 {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !strings.HasPrefix(key, config.AnnotationPrefix) && slices.ContainsFunc(pauses, func(p Pause) bool { return p.has(key, labels[key]) }) {
			return key + "=" + labels[key]
		}
	}
	return ""
}

func (p Pause) has(key, value string) bool {
	if prefix, all := strings.CutSuffix(p.Label, "*"); key != p.Label && (!all || !strings.HasPrefix(key, prefix)) {
		return false
	}
	return slices.ContainsFunc(p.Values, func(pattern string) bool {
		ok, err := path.Match(pattern, value)
		return err == nil && ok
	})
}
