package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// maxLength bounds an expression, in bytes.
	maxLength = 2048
	// maxCost bounds an evaluation. Reading a file costs 1, as a comparison does.
	maxCost = 100_000
)

// Want is the type that an expression must have.
type Want int

// The types.
const (
	// Bool is for conditions.
	Bool Want = iota
	// Int is for capacities.
	Int
	// Attribute is a string, int, bool or version, or a list of one of the first three.
	Attribute
	// Text is a string or int, for templates. Texts may also be a list of these.
	Text
	Texts
)

// Version is the value of version(text).
type Version string

// Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	text    string
	program cel.Program
	// Type is that of the values: string, int, bool, version, or list(string), list(int), list(bool).
	Type string
}

// Compile compiles an expression. The error is for users.
func Compile(text string, want Want) (*Program, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("it is empty: write an expression, or leave the field out")
	}
	if len(text) > maxLength {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(text), maxLength)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if all := issues.Errors(); len(all) > 0 {
		at := all[0].Location.Column()
		return nil, fmt.Errorf("%q, character %d: %s", text, at+1, wrong(text, at, all[0].Message, want))
	}
	if is := checked.OutputType(); !slices.ContainsFunc(accepted[want].types, is.IsExactType) {
		return nil, errors.New(otherType(text, is, want))
	}
	var options []cel.ProgramOption
	if hasLoop(checked) { // otherwise its length bounds it, and counting is a third of an evaluation
		options = append(options, cel.CostLimit(maxCost))
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return &Program{text, program, cel.FormatCELType(checked.OutputType())}, nil
}

// hasLoop reports whether an expression has a macro such as all or map.
func hasLoop(of *cel.Ast) bool {
	found := false
	ast.PostOrderVisit(of.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) { found = found || e.Kind() == ast.ComprehensionKind }))
	return found
}

// accepted has the types that an expression may have.
var accepted = map[Want]struct {
	name  string
	types []*types.Type
}{
	Bool:  {"true or false", []*types.Type{types.BoolType}},
	Int:   {`a whole number, such as self.number("file")`, []*types.Type{types.IntType}},
	Text:  {"a string or a whole number", []*types.Type{types.StringType, types.IntType}},
	Texts: {"a string, a whole number or a list of strings", []*types.Type{types.StringType, types.IntType, types.NewListType(types.StringType)}},
	Attribute: {"a string, a whole number, true or false, a version, or a list of the first three", []*types.Type{
		types.StringType, types.IntType, types.BoolType, versionType,
		types.NewListType(types.StringType), types.NewListType(types.IntType), types.NewListType(types.BoolType),
	}},
}

// Eval returns the value of the expression: a string, int64, bool, [Version], []string, []int64
// or []bool. An error names the expression, and the file if a read failed.
func (p *Program) Eval(s *Scope) (any, error) {
	value, _, err := p.program.Eval(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.text, err)
	}
	out, err := native(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.text, err)
	}
	return out, nil
}

// True evaluates a condition.
func (p *Program) True(s *Scope) (bool, error) {
	value, err := p.Eval(s)
	is, _ := value.(bool)
	return is, err
}

func native(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return int64(v), nil
	case types.Bool:
		return bool(v), nil
	case version:
		return Version(v), nil
	}
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("it is %s, which is no value of a device", value.Type().TypeName())
	}
	return nativeList(list)
}

// nativeList returns a list, whose elements the compiler made one type.
func nativeList(list traits.Lister) (any, error) {
	var texts []string
	var numbers []int64
	var facts []bool
	for it := list.Iterator(); it.HasNext() == types.True; {
		switch v := it.Next().(type) {
		case types.String:
			texts = append(texts, string(v))
		case types.Int:
			numbers = append(numbers, int64(v))
		case types.Bool:
			facts = append(facts, bool(v))
		default:
			return nil, fmt.Errorf("it has an element that is %s, which is no value of a device", v.Type().TypeName())
		}
	}
	switch {
	case numbers != nil:
		return numbers, nil
	case facts != nil:
		return facts, nil
	}
	return texts, nil
}
