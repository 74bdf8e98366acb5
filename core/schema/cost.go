package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

const (
	// maxSteps bounds how many parts of a schema are evaluated, each for a part of the value.
	maxSteps = 1_000_000
	// maxObjects bounds the JSON objects of a schema: the library compiles them in the square of their number.
	maxObjects = 8192
	// maxDepth bounds the levels of a value.
	maxDepth = 64
	// textStep is how much text counts as a step, in bytes.
	textStep = 64
)

// Keywords with schemas for the same value, and for all its properties or items. Those of properties and propertyNames are
// apart; further keywords have no schemas that count.
var (
	inPlace    = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
	ofChildren = []string{"additionalProperties", "patternProperties", "unevaluatedProperties", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"}
)

// checkCost returns an error if the evaluation of a part of a schema for a value would take more than maxSteps. Steps are computed
// and not measured, so that the result does not depend on the machine.
func checkCost(schema, part, value any) error {
	c := &cost{schema: schema, steps: map[pair]int{}, sizes: map[uintptr]int{}}
	if objects, err := c.objects(schema); err != nil {
		return err
	} else if objects > maxObjects {
		return fmt.Errorf("the schema has more than %d objects", maxObjects)
	}
	if c.of(part, value, "", 0) > maxSteps {
		return fmt.Errorf("the schema evaluates more than %d of its parts for this value", maxSteps)
	}
	if c.isDeep {
		return &RefusedError{fmt.Sprintf("has more than %d levels", maxDepth)}
	}
	return nil
}

// pair is an object of a schema, by its address, and a part of a value, by its place.
type pair struct {
	part uintptr
	at   string
}

// cost sums up steps. It computes each pair once, and ends at maxSteps.
type cost struct {
	schema any
	steps  map[pair]int
	sizes  map[uintptr]int // of what an object compares with
	calls  int
	isDeep bool
}

// objects counts the objects of a schema, and refuses references that the sum does not know.
func (c *cost) objects(part any) (n int, err error) {
	var children []any
	switch v := part.(type) {
	case map[string]any:
		n = 1
		if ref, ok := v["$ref"].(string); ok && ref != "#" && !strings.HasPrefix(ref, "#/") {
			return 0, fmt.Errorf("the schema refers to %s, and may refer only to itself, as in #/$defs/name", ref)
		}
		if v["$dynamicRef"] != nil || v["$recursiveRef"] != nil {
			return 0, errors.New("the schema has $dynamicRef or $recursiveRef; use $ref")
		}
		for _, child := range v {
			children = append(children, child)
		}
	case []any:
		children = v
	}
	for _, child := range children {
		more, err := c.objects(child)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// of returns the steps for a part of the schema and the part of the value at a place; more than maxSteps count as one more.
func (c *cost) of(part, value any, at string, depth int) int {
	if c.calls++; c.calls > maxSteps { // each is a step at least
		return maxSteps + 1
	}
	node, ok := part.(map[string]any)
	if !ok {
		return 1
	}
	key := pair{reflect.ValueOf(node).Pointer(), at}
	if n, ok := c.steps[key]; ok {
		return n
	}
	if depth > maxDepth {
		c.isDeep = true
		return 1
	}
	c.steps[key] = 1 // of a part that refers to itself, which the library reports
	n := 1 + c.comparisons(key.part, node)
	add := func(part, value any, at string, depth int) {
		if n <= maxSteps {
			n = min(n+c.of(part, value, at, depth), maxSteps+1)
		}
	}
	for _, keyword := range inPlace {
		for _, sub := range c.schemas(keyword, node[keyword]) {
			add(sub, value, at, depth)
		}
	}
	var all []any
	for _, keyword := range ofChildren {
		all = append(all, c.schemas(keyword, node[keyword])...)
	}
	child := func(value any, name string) {
		place := at + "/" + name
		for _, sub := range all {
			add(sub, value, place, depth+1)
		}
		n += len(name) / textStep
	}
	switch v := value.(type) {
	case map[string]any:
		properties, _ := node["properties"].(map[string]any)
		for name, value := range v {
			if sub, ok := properties[name]; ok {
				add(sub, value, at+"/"+name, depth+1)
			}
			if names := node["propertyNames"]; names != nil {
				add(names, name, at+"//"+name, depth+1)
			}
			child(value, name)
		}
	case []any:
		for i, value := range v {
			child(value, strconv.Itoa(i))
		}
		if node["uniqueItems"] == true {
			n += maxCompared * len(v)
		}
	case string:
		n += len(v) / textStep
	}
	n = min(n, maxSteps+1)
	c.steps[key] = n
	return n
}

// maxCompared is with how many items the library compares each one of a short list; it hashes those of longer ones.
const maxCompared = 20

// schemas returns the schemas that a keyword has: one, a list or a map of them, or what it refers to.
func (c *cost) schemas(keyword string, value any) (all []any) {
	switch v := value.(type) {
	case string:
		if keyword == "$ref" {
			return []any{part(c.schema, strings.TrimPrefix(v, "#"))}
		}
	case []any:
		return v
	case map[string]any:
		if keyword != "patternProperties" && keyword != "dependentSchemas" && keyword != "dependencies" {
			return []any{v}
		}
		for _, sub := range v {
			all = append(all, sub)
		}
	}
	return all
}

// comparisons returns the steps for the values in enum and const of an object of the schema.
func (c *cost) comparisons(id uintptr, node map[string]any) int {
	if n, ok := c.sizes[id]; ok {
		return n
	}
	n := 0
	for _, keyword := range []string{"enum", "const"} {
		if encoded, err := json.Marshal(node[keyword]); err == nil && node[keyword] != nil {
			n += len(encoded) / textStep
		}
	}
	c.sizes[id] = n
	return n
}
