package config

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of the configuration file, for
// editors. It has every field, type, enumeration and default. Parse checks more: references
// between fields, selectors and reserved names.
func Schema() []byte { return bytes.Clone(schema) }
