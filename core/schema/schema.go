// Package schema checks values against the JSON schemas of backends. A schema is not trusted: it
// cannot read files or URLs, and its evaluation is bounded in steps.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/accelmux/accelmux/core/text"
)

// noLoader keeps a schema from reading files and URLs.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, and may refer only to itself", url)
}

// RefusedError is the error for a value that a schema refuses. Its message has the place in the value.
type RefusedError struct{ message string }

func (r *RefusedError) Error() string { return r.message }

// Check returns nil if the schema accepts a value, and a [*RefusedError] if it does not. Other errors
// are for a value that is not JSON, for a schema that cannot be used or whose evaluation would take too long (maxSteps), and
// for a ctx that has ended.
func Check(ctx context.Context, schema string, value []byte) error {
	return check(ctx, schema, "", value)
}

// CheckProperty is Check for the value of one property of an object, whose name is a C identifier: it
// checks what the schema has below properties for it. What the schema demands of the whole object,
// such as required, it does not check.
func CheckProperty(ctx context.Context, schema, name string, value []byte) error {
	return check(ctx, schema, "#/properties/"+name, value)
}

// check checks a value by the part of the schema at fragment.
func check(ctx context.Context, schema, fragment string, value []byte) error {
	found, err := violations(ctx, schema, fragment, value)
	if err != nil || len(found) == 0 {
		return err
	}
	return &RefusedError{strings.TrimPrefix(found[0].Field+": "+found[0].Message, ": ")}
}

// evaluated evaluates a schema, unless that would take too long.
func evaluated(ctx context.Context, schema, fragment string, value []byte) error {
	if ctx.Err() != nil {
		return fmt.Errorf("evaluation of the schema: %w", context.Cause(ctx))
	}
	err := evaluate(schema, fragment, value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok && cyclic(invalid) {
		return errors.New("the schema refers to itself without end")
	}
	return err
}

// where is the name of a schema for the library.
const where = "schema.json"

func evaluate(schema, fragment string, value []byte) error {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	if err := checkNumbers(value); err != nil {
		return err
	}
	at := document
	if fragment != "" {
		at = part(document, strings.TrimPrefix(fragment, "#"))
	}
	if err := checkCost(document, at, decoded); err != nil {
		return err
	}
	compiled, err := latest.compile(schema, document, fragment)
	if err != nil {
		return err
	}
	return compiled.Validate(decoded)
}

// maxLatest bounds the compiled schemas that are stored: those of the backends of a node.
const maxLatest = 16

// latest are the compiled schemas that were used last: to compile one takes most of the time of a check, and at its start the
// agent checks the settings of a backend twice.
var latest compiled

// compiled stores compiled schemas. It is safe for concurrent use, as they are.
type compiled struct {
	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

func (c *compiled) compile(schema string, document any, fragment string) (*jsonschema.Schema, error) {
	key := fragment + "\x00" + schema
	c.mu.Lock()
	known := c.schemas[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(where, document); err != nil {
		return nil, err
	}
	made, err := compiler.Compile(where + fragment)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil || len(c.schemas) >= maxLatest {
		c.schemas = map[string]*jsonschema.Schema{}
	}
	c.schemas[key] = made
	return made, nil
}

const (
	// maxExponent bounds the decimal exponents of numbers, up and down, as in a float64. The library
	// computes with all digits: 0.1 s and more for 1e999999.
	maxExponent = 308
	// maxNumber bounds a number in a message, in bytes.
	maxNumber = 40
)

// checkNumbers returns a [*RefusedError] for a number in a JSON value that has a larger exponent.
func checkNumbers(value []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		number, ok := token.(json.Number)
		if !ok {
			continue
		}
		_, digits, found := strings.Cut(strings.ToLower(number.String()), "e")
		if exponent, err := strconv.Atoi(digits); found && (err != nil || max(exponent, -exponent) > maxExponent) {
			return &RefusedError{fmt.Sprintf("the number %s is out of range: its exponent may be from -%d to %d",
				text.Shorten(number.String(), maxNumber), maxExponent, maxExponent)}
		}
	}
}

// cyclic reports whether the error is that the schema refers to itself without end.
func cyclic(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*schemakind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, cyclic)
}
