package config

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of the configuration file, for
// editors. It knows every field, type, enumeration and default. It is weaker
// than Parse: references between fields, selectors and the reserved names are
// beyond it.
func Schema() []byte { return bytes.Clone(schema) }
