package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// schemaLimit bounds the evaluation of a schema. A goroutine cannot be ended: one that takes
// longer runs until the end of the program.
const schemaLimit = 10 * time.Second

// noLoader keeps a schema from reading files and URLs.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and may refer only to itself", url)
}

// refusedBy reports whether a JSON schema refuses a value. The error is for a schema that
// cannot be used, or whose evaluation takes longer than schemaLimit.
func refusedBy(ctx context.Context, schema string, value []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, schemaLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- evaluate(schema, value) }()
	select {
	case err := <-done:
		var invalid *jsonschema.ValidationError
		if !errors.As(err, &invalid) {
			return false, err
		}
		if cyclic(invalid) {
			return false, errors.New("it refers to itself without end")
		}
		return true, nil
	case <-ctx.Done():
		return false, fmt.Errorf("its evaluation takes longer than %s", schemaLimit)
	}
}

func evaluate(schema string, value []byte) error {
	const where = "schema.json"
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(where, document); err != nil {
		return err
	}
	compiled, err := compiler.Compile(where)
	if err != nil {
		return err
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return compiled.Validate(decoded)
}

// cyclic reports whether the schema, not the value, is wrong.
func cyclic(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*schemakind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, cyclic)
}
