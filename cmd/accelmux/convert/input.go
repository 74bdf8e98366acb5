package convert

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
)

// input is a file that is read strictly, with the positions of its fields for errors.
type input struct {
	file      string
	positions config.Positions
}

// open returns the document of a file, which may be a ConfigMap with the document as its only
// value, or a list of one object, as kubectl prints it.
func open(s Source) (*yaml.Node, input, error) {
	i := input{file: s.Name}
	if len(bytes.TrimSpace(s.File)) == 0 {
		return nil, i, errors.New("FILE is missing or empty: give the plugin's configuration file, or its ConfigMap")
	}
	root, err := config.Document(s.Name, s.File)
	if err != nil {
		return nil, i, err
	}
	kind := field(root, "kind")
	if items := field(root, "items"); kind != nil && kind.Value == "List" && items != nil && len(items.Content) == 1 {
		root = items.Content[0]
		kind = field(root, "kind")
	}
	if kind == nil || kind.Value != "ConfigMap" {
		return root, i, nil
	}
	data := field(root, "data")
	if data == nil || data.Kind != yaml.MappingNode || len(data.Content) != 2 || data.Content[1].Kind != yaml.ScalarNode {
		return nil, i, config.Error{File: s.Name, Position: config.PositionOf(root), Field: "data", Message: "the ConfigMap must have one value, which is the configuration; of several give one in a file of its own"}
	}
	value := data.Content[1]
	i.file = fmt.Sprintf("%s (data[%q])", s.Name, data.Content[0].Value)
	inner, err := config.Document(i.file, []byte(value.Value))
	shift := value.Line - 1
	if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		shift++ // the text begins on the line after the | or >
	}
	if err != nil {
		return nil, i, moved(err, shift)
	}
	move(inner, shift)
	return inner, i, nil
}

// decode decodes a part of the document.
func (i *input) decode(node *yaml.Node, at string, into any) (err error) {
	i.positions, err = config.Decode(i.file, node, at, into)
	return err
}

// field returns the value of a field of a mapping; nil if there is none.
func field(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var value *yaml.Node
		if n != nil && n.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(n.Content); j += 2 {
				if n.Content[j].Value == name {
					value = n.Content[j+1]
				}
			}
		}
		n = value
	}
	return n
}

// move adds to the lines of a node and of what is in it. Their columns are those in the value of a ConfigMap,
// and not known in the file.
func move(n *yaml.Node, lines int) {
	n.Line, n.Column = n.Line+lines, 0
	for _, child := range n.Content {
		move(child, lines)
	}
}

// moved adds to the lines of errors.
func moved(err error, lines int) error {
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	for i := range all {
		if all[i].Line > 0 {
			all[i].Position = config.Position{Line: all[i].Line + lines}
		}
	}
	return all
}
