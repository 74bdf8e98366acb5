package manifest

import "encoding/json"

// Explanation is a group of a manifest for settings, for people.
type Explanation struct {
	Why string `json:"why"`
	// Holds is false if the settings do not meet the group's condition, so that it gives nothing.
	Holds bool `json:"holds"`
	// Lists are those with entries, in the order of the manifest's fields.
	Lists []ExplainedList `json:"lists,omitempty"`
}

// ExplainedList is a list of a group: its field in the manifest, and the entries that it stands for, sorted.
type ExplainedList struct {
	Field   string   `json:"field"`
	Entries []string `json:"entries,omitempty"`
	GIDs    []int    `json:"gids,omitempty"`
}

// Explain returns the groups of the process and of containers with what they give for merged settings, whose rights
// [Manifest.Rights] has returned.
func (m *Manifest) Explain(settings json.RawMessage) (process, containers []Explanation, err error) {
	value, err := m.filled(settings)
	if err != nil {
		return nil, nil, err
	}
	explain := func(groups []group) (all []Explanation) {
		for _, g := range groups {
			e := Explanation{Why: g.why, Holds: holds(value, g.when)}
			for _, l := range g.lists {
				r := &resolver{name: m.Description.Name, settings: value, lists: map[kind]map[string]bool{}}
				for _, entry := range l.entries {
					r.entry(l.kind, entry)
				}
				if entries := r.sorted(l.kind); e.Holds && len(entries) > 0 {
					e.Lists = append(e.Lists, ExplainedList{Field: l.kind.field(), Entries: entries})
				}
			}
			if e.Holds && len(g.gids) > 0 {
				e.Lists = append(e.Lists, ExplainedList{Field: "gids", GIDs: g.gids})
			}
			all = append(all, e)
		}
		return all
	}
	return explain(processGroups(m.Process)), explain(containerGroups(m.Containers)), nil
}
