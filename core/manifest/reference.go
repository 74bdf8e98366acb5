package manifest

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

// maxReferences bounds how many $ref of a schema lead to another, and how deep settings are filled with defaults.
const (
	maxReferences = 16
	maxFilled     = 100_000
	maxDepth      = 32
	maxCopied     = 300_000 // properties that $ref and allOf join while settings are filled
)

// steps splits the path of a setting: names, and "[*]".
func steps(setting string) (all []string) {
	for part := range strings.SplitSeq(setting, ".") {
		name, stars := part, 0
		for strings.HasSuffix(name, "[*]") {
			name, stars = strings.TrimSuffix(name, "[*]"), stars+1
		}
		all = append(all, name)
		for range stars {
			all = append(all, "[*]")
		}
	}
	return all
}

// when checks conditions.
func (c *checker) when(m *Manifest, at string, w When) {
	for i, condition := range w {
		field := at
		if _, several := c.positions[fmt.Sprintf("%s[%d]", at, i)]; several {
			field = fmt.Sprintf("%s[%d]", at, i)
		}
		if condition.Is != nil && condition.Not != nil {
			c.fail(field, "must have is or not, not both")
		}
		c.patterns(field+".is", condition.Is)
		c.patterns(field+".not", condition.Not)
		c.path(m, field+".setting", condition.Setting)
	}
}

// reference checks a reference to the settings.
func (c *checker) reference(m *Manifest, at string, r *Reference) {
	node, ok := c.path(m, at+".setting", r.Setting)
	if _, filled := node["default"]; ok && !filled && r.Default == nil {
		c.fail(at, "%s has no default in the schema of the settings: the reference must have one, which may be \"\"", r.Setting)
	}
	if r.Below == nil {
		return
	}
	if below := r.Below.Reference; below != nil {
		c.reference(m, at+".below", below)
	} else if strings.HasPrefix(r.Below.Text, "/") || r.Below.Text == "" || hasDots(r.Below.Text) {
		c.fail(at+".below", "%q is not a path below another", text.Printable(r.Below.Text, 128))
	}
}

func hasDots(p string) bool { return strings.Contains("/"+p+"/", "/../") }

// path looks a setting up in the schema, and reports one that it does not have.
func (c *checker) path(m *Manifest, at, setting string) (map[string]any, bool) {
	node, name, names := lookUp(m.schema, setting)
	if node != nil {
		return node, true
	}
	c.fail(at, "the schema of the settings does not have %s: there is no %q%s", text.Printable(setting, 128), text.Printable(name, 64), suggestion.DidYouMean(name, names))
	return nil, false
}

// lookUp returns the part of a schema for a setting, or the first step that it does not have, and what it has instead.
func lookUp(schema any, setting string) (node map[string]any, missing string, names []string) {
	node = follow(schema, schema)
	for _, step := range steps(setting) {
		var next any
		properties, _ := node["properties"].(map[string]any)
		if step == "[*]" {
			if next = node["items"]; next == nil {
				next = node["additionalProperties"]
			}
		} else if next = properties[step]; next == nil {
			next = node["additionalProperties"]
		}
		if next == true {
			next = map[string]any{}
		}
		if node = follow(schema, next); node == nil {
			for name := range properties {
				names = append(names, name)
			}
			return nil, step, names
		}
	}
	return node, "", nil
}

// follow returns what a part of a schema says with all that it refers to by local $ref and allOf, of each keyword the
// first; nil if there is no such part.
func follow(schema, part any) map[string]any {
	first, ok := part.(map[string]any)
	if !ok {
		return nil
	}
	if first["$ref"] == nil && first["allOf"] == nil {
		return first
	}
	all, properties := map[string]any{}, map[string]any{}
	parts := []any{part}
	for i := 0; i < len(parts) && i < maxReferences; i++ {
		node, _ := parts[i].(map[string]any)
		for keyword, value := range node {
			if _, ok := all[keyword]; !ok {
				all[keyword] = value
			}
		}
		own, _ := node["properties"].(map[string]any)
		for name, property := range own {
			if _, ok := properties[name]; !ok {
				properties[name] = property
			}
		}
		if ref, ok := node["$ref"].(string); ok {
			parts = append(parts, target(schema, ref))
		}
		several, _ := node["allOf"].([]any)
		parts = append(parts, several[:min(len(several), maxReferences)]...)
	}
	all["properties"] = properties
	return all
}

// target returns what a local reference of a schema leads to; nil for others.
func target(schema any, ref string) any {
	rest, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	part := schema
	for name := range strings.SplitSeq(rest, "/") {
		in, _ := part.(map[string]any)
		part = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return part
}

// filler fills settings with the defaults of their schema.
type filler struct {
	schema any
	filled int
	copied int
}

// follow is [follow], and counts what it joins.
func (f *filler) follow(part any) map[string]any {
	node := follow(f.schema, part)
	if first, ok := part.(map[string]any); ok && (first["$ref"] != nil || first["allOf"] != nil) {
		properties, _ := node["properties"].(map[string]any)
		f.copied += len(properties)
	}
	return node
}

// fill fills the properties of objects that are there, also of those in lists. An absent object is made only where its own
// schema has a default.
func (f *filler) fill(part, value any, depth int) error {
	node := f.follow(part)
	if f.filled++; f.filled > maxFilled || depth > maxDepth {
		return fmt.Errorf("the defaults of the schema make more than %d values or %d levels", maxFilled, maxDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := node["properties"].(map[string]any)
		f.filled += len(properties)
		for name, property := range properties {
			if f.copied > maxCopied {
				return fmt.Errorf("the references of the schema join more than %d properties", maxCopied)
			}
			if _, ok := v[name]; !ok {
				if standard, ok := f.follow(property)["default"]; ok {
					v[name] = f.clone(standard)
				}
			}
			if child, ok := v[name]; ok {
				if err := f.fill(property, child, depth+1); err != nil {
					return err
				}
			}
		}
	case []any:
		for _, item := range v {
			if err := f.fill(node["items"], item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// clone copies a default, and counts its values.
func (f *filler) clone(value any) any {
	if f.filled++; f.filled > maxFilled {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, child := range v {
			c[name] = f.clone(child)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, child := range v {
			c[i] = f.clone(child)
		}
		return c
	}
	return value
}
