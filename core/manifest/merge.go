package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

// mergedFields are those of a kind of which each member replaces that of the preset; of others the whole does.
var mergedFields = []string{"edits", "telemetry", "deviceInfo"}

type object = map[string]json.RawMessage

// Merge replaces the presets in settings by plain kinds. Settings of a manifest without presets are returned as they are.
// The error is a [FieldErrors] if there is no such preset; then the others are merged.
func (m *Manifest) Merge(settings json.RawMessage) (json.RawMessage, error) {
	if m.Presets == nil {
		return settings, nil
	}
	var all object
	var named []string
	var kinds []object
	if !decodes(orEmpty(settings), &all) || all == nil || !decodes(all["presets"], &named) || !decodes(all["kinds"], &kinds) {
		return settings, nil // what Check refuses
	}
	var errs FieldErrors
	own := map[string]bool{}
	for i, k := range kinds {
		merged, err := m.kind(k)
		if err != nil {
			errs = append(errs, FieldError{fmt.Sprintf("kinds[%d].preset", i), err.Error()})
			continue
		}
		kinds[i] = merged
		own[string(bytes.TrimSpace(merged["name"]))] = true
	}
	var added []object
	for i, name := range named {
		preset, err := m.preset(name)
		if err != nil {
			errs = append(errs, FieldError{fmt.Sprintf("presets[%d]", i), err.Error()})
		} else if !own[string(bytes.TrimSpace(preset["name"]))] {
			added = append(added, preset)
		}
	}
	delete(all, "presets")
	if kinds = append(kinds, added...); len(kinds) > 0 { // the user's own keep their places, which errors name
		encoded, err := json.Marshal(kinds)
		if err != nil {
			return nil, err
		}
		all["kinds"] = encoded
	}
	encoded, err := json.Marshal(all)
	if errs != nil {
		return encoded, errs
	}
	return encoded, err
}

// preset returns a preset, with its name unless it has one.
func (m *Manifest) preset(name string) (preset object, err error) {
	data, ok := m.Presets[name]
	if !ok {
		return nil, fmt.Errorf("there is no preset %q%s", text.Printable(name, 64), suggestion.OrAll(name, "the presets are", slices.Sorted(maps.Keys(m.Presets))))
	}
	if err := json.Unmarshal(data, &preset); err != nil {
		return nil, fmt.Errorf("the preset %s is not a mapping", name)
	}
	if preset["name"] == nil {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		preset["name"] = quoted
	}
	return preset, nil
}

// kind returns a kind with the fields of its preset, if it has one. Null is not given.
func (m *Manifest) kind(k object) (object, error) {
	var name string
	if k["preset"] == nil || !decodes(k["preset"], &name) {
		return k, nil
	}
	merged, err := m.preset(name)
	if err != nil {
		return nil, err
	}
	overlay(merged, k)
	delete(merged, "preset")
	return merged, nil
}

func overlay(under, over object) {
	for field, value := range over {
		var a, b object
		switch {
		case string(bytes.TrimSpace(value)) == "null":
		case slices.Contains(mergedFields, field) && json.Unmarshal(under[field], &a) == nil && json.Unmarshal(value, &b) == nil && a != nil:
			overlay(a, b)
			if encoded, err := json.Marshal(a); err == nil {
				under[field] = encoded
			}
		default:
			under[field] = value
		}
	}
}

// decodes reports whether a value, if there is one, is of the type of to, and sets to.
func decodes(value json.RawMessage, to any) bool {
	return value == nil || json.Unmarshal(value, to) == nil
}
