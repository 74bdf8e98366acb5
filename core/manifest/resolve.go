package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// found is a value in the settings, its path, and the element of the first list or map on that path.
type found struct {
	value   any
	at      string
	element any
}

// find returns the values of a setting.
func find(settings any, setting string) []found {
	all := []found{{value: settings}}
	for _, step := range steps(setting) {
		var next []found
		for _, f := range all {
			add := func(at string, value any) {
				n := found{value, at, f.element}
				if step == "[*]" && n.element == nil {
					n.element = value
				}
				next = append(next, n)
			}
			switch v := f.value.(type) {
			case map[string]any:
				if step == "[*]" {
					for _, name := range slices.Sorted(maps.Keys(v)) {
						add(f.at+"."+name, v[name])
					}
				} else if value, ok := v[step]; ok && value != nil {
					add(strings.TrimPrefix(f.at+"."+step, "."), value)
				}
			case []any:
				if step == "[*]" {
					for i, item := range v {
						add(f.at+"["+strconv.Itoa(i)+"]", item)
					}
				}
			}
		}
		all = next
	}
	return all
}

// holds reports whether one of the conditions holds, or there are none.
func holds(settings any, when When) bool {
	return len(when) == 0 || slices.ContainsFunc(when, func(c Condition) bool {
		values := find(settings, c.Setting)
		one := func(patterns []string) bool {
			return slices.ContainsFunc(values, func(f found) bool {
				value, ok := textOf(f.value)
				return ok && slices.ContainsFunc(patterns, func(p string) bool {
					matched, err := path.Match(p, value)
					return err == nil && matched
				})
			})
		}
		switch {
		case c.Is != nil:
			return one(c.Is)
		case c.Not != nil:
			return len(values) > 0 && !one(c.Not)
		}
		return slices.ContainsFunc(values, func(f found) bool { return isThere(f.value) })
	})
}

// isThere reports whether a value is neither null, false, "", 0 nor an empty list.
func isThere(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case json.Number:
		n, err := v.Float64()
		return err != nil || n != 0
	case float64: // a default
		return v != 0
	}
	return true
}

// textOf returns the text of a value that is no list or map.
func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool, json.Number, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// place is a text that a setting at a path leads to. It is open if it stands for all nodes or files, as an expression in it
// stands for anything.
type place struct {
	text, at string
	isOpen   bool
}

// resolve returns what a reference stands for.
func (r *Reference) resolve(settings any, isPath bool) ([]place, error) {
	var all []place
	values := find(settings, r.Setting)
	if len(values) == 0 && r.Default != nil {
		values = []found{{value: *r.Default, at: r.Setting}}
	}
	for _, f := range values {
		if object, ok := f.value.(map[string]any); ok && r.Keys {
			for _, name := range slices.Sorted(maps.Keys(object)) {
				all = append(all, place{text: name, at: f.at + "." + name})
			}
			continue
		}
		value, ok := textOf(f.value)
		if !ok || r.Keys || value == "" {
			continue
		}
		texts, err := r.texts(value, f.element, isPath)
		if err != nil {
			return nil, err
		}
		for _, t := range texts {
			all = append(all, place{t.text, f.at, t.isOpen})
		}
		if len(all) > 16*maxEntries {
			return nil, errTooMany
		}
	}
	if r.Below == nil {
		return all, nil
	}
	below := []place{{text: r.Below.Text}}
	if ref := r.Below.Reference; ref != nil {
		var err error
		if below, err = ref.resolve(settings, isPath); err != nil {
			return nil, err
		}
	}
	if len(all)*len(below) > 16*maxEntries {
		return nil, errTooMany
	}
	var joined []place
	for _, dir := range all {
		for _, b := range below {
			joined = append(joined, place{text: strings.TrimSuffix(dir.text, "/") + "/" + strings.TrimPrefix(b.text, "/"), at: dir.at})
		}
	}
	return joined, nil
}

// texts returns the entries for one value, without places.
func (r *Reference) texts(value string, element any, isPath bool) (all []place, err error) {
	if !r.Glob.On {
		if isPath && strings.HasPrefix(value, "/") {
			value = path.Clean(value)
		}
		if r.Dir {
			value = path.Dir(value)
		}
		return []place{{text: escape(value)}}, nil
	}
	entries, open, err := r.Glob.expand(value, element)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry == "" {
			continue
		}
		isOpen := open && slices.Contains([]string{"*", "/*", "/**", "/dev/*", "/dev/**"}, entry)
		all = append(all, place{text: entry, isOpen: isOpen})
	}
	return all, nil
}

// escape makes a pattern that matches a text alone.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}

// expand makes patterns of a text with {expressions}: braces nest, text in quotes has none, and "{{" and "}}" are
// literal. It reports whether there was an expression.
func (g Glob) expand(value string, element any) (all []string, open bool, err error) {
	all = []string{""}
	appendEach := func(texts ...string) error {
		if len(all)*len(texts) > maxEntries {
			return errTooMany
		}
		var next []string
		for _, before := range all {
			for _, t := range texts {
				if strings.HasSuffix(before, "*") {
					t = strings.TrimLeft(t, "*")
				}
				if len(before)+len(t) > maxEntry {
					return errTooMany
				}
				next = append(next, before+t)
			}
		}
		all = next
		return nil
	}
	for value != "" {
		i := strings.IndexAny(value, "{}")
		if i < 0 {
			i = len(value)
		}
		if i > 0 {
			if strings.HasPrefix(value, "**") { // as the user wrote it
				for j := range all {
					all[j] = strings.TrimRight(all[j], "*")
				}
			}
			if err := appendEach(value[:i]); err != nil {
				return nil, open, err
			}
			value = value[i:]
			continue
		}
		if strings.HasPrefix(value, "{{") || strings.HasPrefix(value, "}}") || value[0] == '}' {
			if err := appendEach(value[:1]); err != nil {
				return nil, open, err
			}
			value = strings.TrimPrefix(value[1:], value[:1])
			continue
		}
		end := closing(value)
		if end < 0 {
			return nil, open, fmt.Errorf("%q has a { that is not closed", value)
		}
		open = true
		texts := g.word(strings.TrimSpace(value[1:end]), element)
		if err := appendEach(texts...); err != nil {
			return nil, open, err
		}
		value = value[end+1:]
	}
	return all, open, nil
}

// word returns the values that an expression stands for, "*" if it is no known word.
func (g Glob) word(expression string, element any) (texts []string) {
	if at, ok := g.Words[expression]; ok {
		for _, f := range find(element, at) {
			items, ok := f.value.([]any)
			if !ok {
				items = []any{f.value}
			}
			for _, item := range items {
				if t, ok := textOf(item); ok {
					texts = append(texts, t)
				}
			}
		}
	}
	if texts == nil {
		return []string{"*"}
	}
	return texts
}

// closing returns the index of the brace that closes the first one; -1 if there is none.
func closing(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
