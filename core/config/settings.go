package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MarshalJSON returns the object; "{}" if there are no settings.
func (s Settings) MarshalJSON() ([]byte, error) {
	if len(s) == 0 {
		return []byte("{}"), nil
	}
	return s, nil
}

// UnmarshalJSON accepts any JSON object.
func (s *Settings) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return errors.New("settings must be one JSON object")
	}
	*s = bytes.Clone(data)
	return nil
}

// settings converts any mapping to one JSON object with sorted keys. Numbers keep every digit.
// It refuses what JSON does not have: keys that are not strings, duplicate keys, .nan and
// .inf, binary and custom tags.
func (d *decoder) settings(n *yaml.Node, line int, path string) Settings {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, line, path, "a mapping")
		return nil
	}
	w := &jsonWriter{decoder: d}
	w.value(n, line, path)
	return w.out.Bytes()
}

// jsonWriter converts a YAML node that checkBounds has accepted to JSON. After an error the
// output is not valid.
type jsonWriter struct {
	*decoder
	out bytes.Buffer
}

func (w *jsonWriter) value(n *yaml.Node, line int, path string) {
	n = resolve(n)
	switch n.Kind {
	case yaml.MappingNode:
		w.object(n, path)
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.value(item, item.Line, itemPath(path, i))
		}
		w.out.WriteByte(']')
	default:
		w.scalar(n, line, path)
	}
}

// object writes a mapping with its keys sorted, so that equal settings are
// equal bytes.
func (w *jsonWriter) object(n *yaml.Node, path string) {
	type pair struct{ key, item *yaml.Node }
	var pairs []pair
	w.eachPair(n, path, func(key, item *yaml.Node) { pairs = append(pairs, pair{key, item}) })
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key.Value, b.key.Value) })
	w.out.WriteByte('{')
	for i, p := range pairs {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.text(p.key.Value)
		w.out.WriteByte(':')
		w.value(p.item, p.key.Line, fieldPath(path, p.key.Value))
	}
	w.out.WriteByte('}')
}

func (w *jsonWriter) scalar(n *yaml.Node, line int, path string) {
	switch tag := n.ShortTag(); tag {
	case nullTag:
		w.out.WriteString("null")
	case boolTag:
		b := strings.ToLower(n.Value)
		if b != "true" && b != "false" {
			w.fail(line, path, "must be true or false, is %s", show(n.Value))
			return
		}
		w.out.WriteString(b)
	case intTag, floatTag:
		number, err := jsonNumber(n.Value, tag)
		if err != nil {
			w.fail(line, path, "%s", err)
			return
		}
		w.out.WriteString(number)
	case strTag, timeTag:
		w.text(n.Value)
	default:
		w.fail(line, path, "settings cannot have a value of the type %s; write it as a string", show(tag))
	}
}

func (w *jsonWriter) text(s string) {
	// Encoding a string cannot fail: invalid UTF-8 becomes U+FFFD.
	encoded, _ := json.Marshal(s)
	w.out.Write(encoded)
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

// MarshalYAML returns the settings as a mapping that Parse reads as the same object.
func (s Settings) MarshalYAML() (any, error) {
	if len(s) == 0 {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	in := json.NewDecoder(bytes.NewReader(s))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return nil, fmt.Errorf("settings are not JSON: %w", err)
	}
	return yamlNode(value), nil
}

func yamlNode(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			n.Content = append(n.Content, yamlText(key), yamlNode(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item))
		}
		return n
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(v)}
	case string:
		return yamlText(v)
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: nullTag, Value: "null"}
	}
}

// yamlText returns a quoted string, which cannot be read as another type.
func yamlText(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: strTag, Style: yaml.DoubleQuotedStyle, Value: s}
}
