package manifest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
)

// Limits returns what merged settings leave of the devices that the manifest declares.
func (m *Manifest) Limits(settings json.RawMessage) *inventory.Limits {
	value, err := m.filled(settings)
	if err != nil {
		return &inventory.Limits{} // Rights reports it
	}
	l := &inventory.Limits{
		Labels: m.labels,
		Absent: map[string]string{}, PreparedFor: map[string]int{}, Values: map[string][]string{}, Owners: map[string]inventory.Owners{},
	}
	if len(find(value, "kinds[*]")) == 0 {
		l.Presets = slices.Sorted(maps.Keys(m.Presets))
	}
	presets := m.presetsByClass()
	for _, class := range m.classes {
		if !holds(value, class.When) {
			l.Absent[class.Name] = class.When.takes()
		} else if of := presets[class.Name]; of != nil && !hasClass(value, class.Name) {
			slices.Sort(of)
			l.Absent[class.Name] = "presets: [" + strings.Join(of, "] or [") + "]"
		}
		if len(class.Potential) > 0 && holds(value, class.Potential) {
			l.Potential = append(l.Potential, class.Name)
		}
		if p := class.PreparedFor; p != nil && holds(value, p.When) {
			for _, found := range find(value, p.Setting) {
				text, _ := textOf(found.value)
				if number, err := strconv.Atoi(text); err == nil && number > 0 {
					l.PreparedFor[class.Name] = number
				}
			}
		}
	}
	for _, a := range m.attributes {
		if values := valuesOf(value, a.Values); values != nil {
			l.Values[a.Name] = values
		}
		if a.Classes == nil {
			continue
		}
		owners := inventory.Owners{}
		var takes []string
		for _, class := range a.Classes {
			if _, isAbsent := l.Absent[class.Name]; !isAbsent && holds(value, class.When) {
				owners.Classes = append(owners.Classes, class.Name)
			} else if isAbsent {
				takes = append(takes, l.Absent[class.Name])
			} else {
				takes = append(takes, class.When.takes())
			}
		}
		owners.Takes = strings.Join(takes, ", or ")
		l.Owners[a.Name] = owners
	}
	return l
}

// valuesOf returns the texts that entries stand for; nil if there are none.
func valuesOf(settings any, entries []Entry) (all []string) {
	for _, e := range entries {
		if e.Reference == nil {
			all = append(all, e.Text)
			continue
		}
		places, err := e.Reference.resolve(settings, false)
		if err != nil {
			return nil // too many
		}
		for _, p := range places {
			all = append(all, p.text)
		}
	}
	return all
}

// presetsByClass returns the names of the presets with devices of each class.
func (m *Manifest) presetsByClass() map[string][]string {
	all := map[string][]string{}
	for name, data := range m.Presets {
		var preset struct{ Class string }
		if json.Unmarshal(data, &preset) == nil && preset.Class != "" {
			all[preset.Class] = append(all[preset.Class], name)
		}
	}
	return all
}

// hasClass reports whether a kind in the settings has the class.
func hasClass(settings any, class string) bool {
	return slices.ContainsFunc(find(settings, "kinds[*].class"), func(f found) bool { return f.value == class })
}

// takes returns what the conditions ask of the settings, for people.
func (w When) takes() string {
	var all []string
	for _, c := range w {
		switch {
		case c.Is != nil:
			all = append(all, c.Setting+": "+strings.Join(c.Is, " or "))
		case c.Not != nil:
			all = append(all, "another "+c.Setting)
		default:
			all = append(all, c.Setting)
		}
	}
	return strings.Join(all, ", or ")
}
