package config

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Union is a type that files write in several forms, such as a string or a mapping.
type Union interface {
	// Part returns a pointer to what a node of this kind is decoded into. A sequence or a mapping is a list, or a
	// struct or map, of this part.
	Part(kind yaml.Kind) any
}

// DecodeFile copies the single YAML document in data into v, a pointer to a struct with yaml tags or to a [Settings], as
// strictly as a node configuration: known fields only, each once, of the right type. The file stands for the data in
// errors, and opening is what a file must start with. The error is an [Errors] with all errors.
func DecodeFile(file, opening string, data []byte, v any) (Positions, error) {
	d := newDecoder(file)
	d.opening = opening
	root := d.document(data)
	if root == nil {
		return nil, d.errs.Err()
	}
	d.positions[""] = PositionOf(root)
	d.value(root, PositionOf(root), reflect.ValueOf(v).Elem(), "")
	return d.positions, d.errs.Err()
}
