package config

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// settings converts any mapping to one JSON object with sorted keys. Numbers keep every digit.
// It refuses what JSON does not have: keys that are not strings, duplicate keys, .nan and
// .inf, binary and custom tags.
func (d *decoder) settings(n *yaml.Node, pos Position, path string) Settings {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, pos, path, "a mapping")
		return nil
	}
	encoded, err := json.Marshal(d.any(n, pos, path))
	if err != nil {
		d.fail(pos, path, "cannot be JSON: %s", err)
	}
	return encoded
}

// any decodes a node that checkBounds has accepted into what encoding/json makes of JSON, with
// numbers as json.Number. After an error the value has no meaning.
func (d *decoder) any(n *yaml.Node, pos Position, path string) any {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		d.eachPair(n, path, func(key, item *yaml.Node) {
			at := FieldPath(path, key.Value)
			d.positions[at] = PositionOf(key)
			object[key.Value] = d.any(item, PositionOf(key), at)
		})
		return object
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			at := itemPath(path, i)
			d.positions[at] = PositionOf(item)
			list[i] = d.any(item, PositionOf(item), at)
		}
		return list
	}
	return d.scalar(n, pos, path)
}

func (d *decoder) scalar(n *yaml.Node, pos Position, path string) any {
	switch tag := n.ShortTag(); tag {
	case nullTag:
		return nil
	case boolTag:
		value, err := strconv.ParseBool(strings.ToLower(n.Value))
		if err != nil {
			d.fail(pos, path, "must be true or false, is %s", show(n.Value))
		}
		return value
	case intTag, floatTag:
		number, err := jsonNumber(n.Value, tag)
		if err != nil {
			d.fail(pos, path, "%s", err)
		}
		return json.Number(number)
	case strTag, timeTag:
		return n.Value
	default:
		d.fail(pos, path, "settings cannot have a value of the type %s; write it as a string", show(tag))
		return nil
	}
}

var (
	jsonNumberSyntax = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	leadingZero      = regexp.MustCompile(`^[-+]?0[0-9_]`)
)

// jsonNumber converts a YAML number to JSON, digit by digit where the notation allows it, so
// that integers of 64 bits and more stay exact.
func jsonNumber(text, tag string) (string, error) {
	if jsonNumberSyntax.MatchString(text) {
		return text, nil
	}
	if leadingZero.MatchString(text) && tag == intTag {
		return "", fmt.Errorf("%s is ambiguous, octal or decimal: write 0o... for octal, or put it in quotes", show(text))
	}
	plain := strings.ReplaceAll(text, "_", "")
	if tag == intTag {
		// Far more than any 64-bit notation needs; big numbers cost more than
		// linear time to convert.
		const maxLen = 128
		if i, ok := new(big.Int).SetString(plain, 0); ok && len(plain) <= maxLen {
			return i.String(), nil
		}
		return "", fmt.Errorf("is not a whole number: %s", show(text))
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil {
		return "", fmt.Errorf("is not a number in JSON: %s", show(text))
	}
	encoded, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("is not a number in JSON: %s", show(text))
	}
	return string(encoded), nil
}

// MarshalYAML returns the settings as a mapping that Parse reads as the same object: JSON is
// YAML in flow style. The error is for control characters, which JSON allows in a string.
func (s Settings) MarshalYAML() (any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(s, &document); err != nil || len(document.Content) == 0 {
		return &yaml.Node{Kind: yaml.MappingNode}, err
	}
	var block func(n *yaml.Node)
	block = func(n *yaml.Node) {
		n.Style &^= yaml.FlowStyle
		for _, child := range n.Content {
			block(child)
		}
	}
	block(document.Content[0])
	return document.Content[0], nil
}
