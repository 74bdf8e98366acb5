// Package schema checks values against the JSON schemas of backends. A schema is not trusted: it
// cannot read files or URLs, and its evaluation is bounded in time.
package schema

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
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// limit bounds the evaluation of a schema. A goroutine cannot be ended: one that takes
// longer runs until the end of the program.
const limit = 10 * time.Second

// noLoader keeps a schema from reading files and URLs.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and may refer only to itself", url)
}

// RefusedError is the error for a value that a schema refuses. Its message has the place in the value.
type RefusedError struct{ message string }

func (r *RefusedError) Error() string { return r.message }

// Check returns nil if the schema accepts a value, which is JSON, and a [*RefusedError] if it does not.
// Other errors are for a schema that cannot be used, or whose evaluation takes longer than 10 s.
func Check(ctx context.Context, schema string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- evaluate(schema, value) }()
	select {
	case err := <-done:
		var invalid *jsonschema.ValidationError
		if !errors.As(err, &invalid) {
			return err
		}
		if cyclic(invalid) {
			return errors.New("it refers to itself without end")
		}
		return &RefusedError{describe(invalid)}
	case <-ctx.Done():
		return fmt.Errorf("its evaluation takes longer than %s", limit)
	}
}

// describe returns the first cause that has none itself.
func describe(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	why := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if len(e.InstanceLocation) == 0 {
		return why
	}
	return strings.Join(e.InstanceLocation, ".") + ": " + why
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
