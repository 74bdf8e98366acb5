package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/suggestion"
)

// Reference is what a selector refers to: device.attributes["nvidia"].model.
type Reference struct {
	// Field is attributes or capacity.
	Field string
	// Domain is the backend's name, FactsDomain, or a domain that several vendors share.
	Domain string
	// Name is that of the attribute or capacity; "" for the domain as a whole.
	Name string
}

// The fields of a device that have domains.
const (
	attributesField = "attributes"
	capacityField   = "capacity"
)

// IsCapacity reports whether it is a capacity, not an attribute.
func (r Reference) IsCapacity() bool { return r.Field == capacityField }

// String returns the expression.
func (r Reference) String() string {
	text := fmt.Sprintf("device.%s[%q]", r.Field, r.Domain)
	if r.Name != "" {
		text += "." + r.Name
	}
	return text
}

// References returns the references of a selector that [CompileSelector] accepted, in their order: first each named
// one, then its domain. Names that the selector computes are not found.
func References(compiled *dracel.CompilationResult) ([]Reference, error) {
	checked, issues := compiled.Environment.Compile(compiled.Expression)
	if issues != nil && issues.Err() != nil {
		return nil, fmt.Errorf("does not compile: %w", issues.Err())
	}
	f := finder{bound: map[string]Reference{}}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(f.visit))
	return f.found, nil
}

// finder finds references.
type finder struct {
	found []Reference
	// bound are the domains that variables of cel.bind have.
	bound map[string]Reference
}

func (f *finder) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.ComprehensionKind: // which is what cel.bind is expanded to
		if domain, ok := f.domain(e.AsComprehension().AccuInit()); ok {
			f.bound[e.AsComprehension().AccuVar()] = domain
		}
	case ast.SelectKind: // also of has
		f.add(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			f.addLiteral(args[0], args[1])
		case operators.In:
			f.addLiteral(args[1], args[0])
		}
		if domain, ok := f.domain(e); ok {
			f.found = append(f.found, domain)
		}
	}
}

func (f *finder) addLiteral(of, name ast.Expr) {
	if value, ok := literal(name); ok {
		f.add(of, value)
	}
}

func (f *finder) add(of ast.Expr, name string) {
	if domain, ok := f.domain(of); ok {
		domain.Name = name
		f.found = append(f.found, domain)
	}
}

// domain recognises device.attributes["domain"], device.capacity["domain"], and a variable with one of them.
func (f *finder) domain(e ast.Expr) (domain Reference, ok bool) {
	if e.Kind() == ast.IdentKind {
		domain, ok = f.bound[e.AsIdent()]
		return domain, ok
	}
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
		return Reference{}, false
	}
	of, index := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if of.Kind() != ast.SelectKind {
		return Reference{}, false
	}
	operand := of.AsSelect().Operand()
	if operand.Kind() != ast.IdentKind || operand.AsIdent() != "device" {
		return Reference{}, false
	}
	name, ok := literal(index)
	return Reference{Field: of.AsSelect().FieldName(), Domain: name}, ok
}

// literal returns a literal string.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	value, ok := e.AsLiteral().(types.String)
	return string(value), ok
}

// checkSelectorDomains returns an error for domains and facts that no device has. CEL has an
// empty map for an unknown domain, so a misspelt one would silently select nothing.
func checkSelectorDomains(compiled *dracel.CompilationResult, backends []string) error {
	all, err := References(compiled)
	if err != nil {
		return err
	}
	for _, r := range all {
		domains := slices.Clone(backends)
		if r.Field == attributesField {
			domains = append(domains, FactsDomain)
		}
		// A domain with a dot is not a backend's: several vendors may share its attributes.
		if !slices.Contains(domains, r.Domain) && (r.Domain == FactsDomain || !strings.Contains(r.Domain, ".")) {
			return fmt.Errorf("no device that can be selected here has %s in the domain %s%s; the domains here are %s (a backend's domain is its name in this configuration)",
				r.Field, show(r.Domain), suggestion.DidYouMean(r.Domain, domains), strings.Join(domains, ", "))
		}
		if r.Domain == FactsDomain && r.Name != "" && !slices.Contains(Facts(), r.Name) {
			return fmt.Errorf("no attribute %s in the domain %q%s; it has %s",
				show(r.Name), FactsDomain, suggestion.DidYouMean(r.Name, Facts()), strings.Join(Facts(), ", "))
		}
	}
	return nil
}
