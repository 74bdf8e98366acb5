package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxAdvice bounds the entries that one message proposes, in bytes.
	maxAdvice = 1500
	// maxNamed bounds the devices that one message names.
	maxNamed = 4
)

// shortage are entries that the configuration's lists lack.
type shortage struct {
	EditScope
	// undeclared: the manifest does not have all of them.
	undeclared bool
}

func (s shortage) join(o shortage) shortage {
	return shortage{s.EditScope.join(o.EditScope), s.undeclared || o.undeclared}
}

// missing returns the entry that would allow a path or name: that of the manifest, unless it also stands for what nobody
// gets, or is of a program, which runs as root.
func (p Policy) missing(k *editKind, name string) shortage {
	declared := k.entries(p.Declared)
	i := slices.IndexFunc(declared, func(pattern string) bool { return k.match(pattern, name) })
	entry := []string{escape(name)}
	if i >= 0 && k != &hookEdit && declared[i] != "*" && Never(k.use, declared[i], AnyBackend) == "" {
		entry = declared[i : i+1]
	}
	s := shortage{undeclared: i < 0}
	switch k.field {
	case "devices":
		s.Devices = entry
	case "mounts":
		s.Mounts = entry
	case "hooks":
		s.Hooks = entry
	case "env":
		s.Env = entry
	case "netDevices":
		s.NetDevices = entry
	}
	return s
}

// escape returns a pattern that matches a path alone.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// advice says how the configuration allows the missing entries.
func (s shortage) advice() string {
	add := "add to this backend allow: " + s.YAML()
	if s.undeclared {
		return "if containers may have them, " + add + " (its manifest does not have all of them)"
	}
	return "accept what its manifest has with allow: {declared: accept}, or " + add
}

// forAuthor says how the manifest allows them.
func (s shortage) forAuthor() string {
	return "the manifest does not have all of the edits: add to containers of the manifest " + s.YAML()
}

// YAML returns the entries as the configuration's allow has them, on one line of at most 2 KiB.
func (s EditScope) YAML() string {
	return text.YAML(maxAdvice, text.List{Field: "devices", Entries: s.Devices}, text.List{Field: "mounts", Entries: union(s.Mounts, s.ReadOnlyMounts)},
		text.List{Field: "hooks", Entries: s.Hooks}, text.List{Field: "env", Entries: s.Env}, text.List{Field: "gids", Entries: texts(s.GIDs)},
		text.List{Field: "netDevices", Entries: s.NetDevices})
}

func texts[T any](values []T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = fmt.Sprint(value)
	}
	return all
}

// shortages are the devices of a report that lack entries of the configuration's lists.
type shortages struct {
	// left are those that are left out, reduced those that stay without optional edits.
	left, reduced []string
	missing       shortage
}

// problems returns one problem for all devices.
func (s *shortages) problems() []Problem {
	var what []string
	for _, group := range []struct {
		ids       []string
		one, many string
	}{
		{s.left, "the device is left out", "%d devices are left out (%s)"},
		{s.reduced, "the device is listed without optional edits", "%d devices are listed without optional edits (%s)"},
	} {
		switch n := len(group.ids); {
		case n == 1 && len(s.left)+len(s.reduced) == 1:
			what = append(what, group.one)
		case n > 0:
			names := strings.Join(group.ids[:min(n, maxNamed)], ", ")
			if n > maxNamed {
				names += ", ..."
			}
			what = append(what, fmt.Sprintf(group.many, n, names))
		}
	}
	if len(what) == 0 {
		return nil
	}
	p := Problem{Message: strings.Join(what, " and ") + ": the configuration does not allow some of the edits: " + s.missing.advice()}
	if len(s.left)+len(s.reduced) == 1 {
		p.Device = slices.Concat(s.left, s.reduced)[0]
	}
	return []Problem{p}
}
