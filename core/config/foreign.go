package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Document reads the one YAML document (JSON is YAML, too) of a file of another program, such as
// the configuration of another device plugin. The error is an [Errors], with file and position.
func Document(file string, data []byte) (*yaml.Node, error) {
	d := newDecoder(file)
	root := d.document(data)
	return root, d.errs.Err()
}

// PositionsIn returns the positions of all fields of a document; nil if it is none.
func PositionsIn(data []byte) Positions {
	d := newDecoder("")
	root := d.document(data)
	if root == nil {
		return nil
	}
	d.positions[""] = PositionOf(root)
	d.any(root, PositionOf(root), "")
	return d.positions
}

// Decode copies a part of such a document, whose path is at, into what into points to, as
// strictly as a node configuration: it refuses unknown and duplicate fields and wrong types. It
// returns the positions of the fields by their paths. The error is an [Errors] with all errors.
func Decode(file string, node *yaml.Node, at string, into any) (positions Positions, err error) {
	d := newDecoder(file)
	d.positions[at] = PositionOf(node)
	d.value(node, PositionOf(node), reflect.ValueOf(into).Elem(), at)
	return d.positions, d.errs.Err()
}
