package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/api/resource"
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

// driverField is the field of a device with the name of its backend.
const driverField = "driver"

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

// bare returns the expression of the domain alone.
func (r Reference) bare() string { return Reference{Field: r.Field, Domain: r.Domain}.String() }

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

// checkLiterals returns an error for a quantity or a version in a selector that is none: the compiler accepts any text, and
// the selector would match no device.
func checkLiterals(compiled *dracel.CompilationResult) (err error) {
	checked, issues := compiled.Environment.Compile(compiled.Expression)
	if issues != nil && issues.Err() != nil {
		return fmt.Errorf("does not compile: %w", issues.Err())
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 1 || err != nil {
			return
		}
		value, ok := literal(e.AsCall().Args()[0])
		if !ok {
			return
		}
		switch e.AsCall().FunctionName() {
		case "quantity":
			err = checkQuantity(value)
		case "semver":
			if !semverSyntax.MatchString(value) {
				err = fmt.Errorf("%s is not a version: write three numbers, such as semver(\"1.2.3\")", show(value))
			}
		}
	}))
	return err
}

// semverSyntax has what semver of CEL reads without its option to normalize.
var semverSyntax = regexp.MustCompile(`^\d+\.\d+\.\d+([-+].*)?$`)

func checkQuantity(value string) error {
	if _, err := resource.ParseQuantity(value); err == nil {
		return nil
	}
	if short := strings.TrimSuffix(value, "B"); short != value {
		if _, err := resource.ParseQuantity(short); err == nil {
			return fmt.Errorf("%s is not a quantity: write %s", show(value), binaryOf(short))
		}
	}
	return fmt.Errorf("%s is not a quantity, such as 8Gi or 16G", show(value))
}

// binaryOf returns an amount with a decimal suffix, and what may have been meant with a binary one.
func binaryOf(amount string) string {
	if strings.HasSuffix(amount, "i") {
		return amount
	}
	return amount + "i or " + amount
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
		if domain, ok := f.domain(e); ok {
			f.found = append(f.found, domain)
		}
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
	if e.Kind() == ast.SelectKind && isDeviceField(e.AsSelect().Operand()) { // device.attributes.domain
		return Reference{Field: e.AsSelect().Operand().AsSelect().FieldName(), Domain: e.AsSelect().FieldName()}, true
	}
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
		return Reference{}, false
	}
	of, index := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if !isDeviceField(of) {
		return Reference{}, false
	}
	name, ok := literal(index)
	return Reference{Field: of.AsSelect().FieldName(), Domain: name}, ok
}

// isDeviceField recognises device.attributes and device.capacity.
func isDeviceField(e ast.Expr) bool {
	if e.Kind() != ast.SelectKind {
		return false
	}
	return isDevice(e.AsSelect().Operand())
}

func isDevice(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "device" }

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
			return fmt.Errorf("no backend here is named %s, as %s in the selector says%s", show(r.Domain), r.bare(), suggestion.OrAll(r.Domain, "the names are", domains))
		}
		if r.Domain == FactsDomain && r.Name != "" && !slices.Contains(Facts(), r.Name) {
			return fmt.Errorf("no attribute %s in the domain %q%s", show(r.Name), FactsDomain, suggestion.OrAll(r.Name, "it has", Facts()))
		}
	}
	compared, err := Comparisons(compiled)
	if err != nil {
		return err
	}
	for _, c := range compared {
		if err := c.checkDriver(backends); err != nil {
			return err
		}
		if kind := coreKind(c.Reference.Domain, c.Reference.Name); kind != "" {
			if wrong := c.Mismatch(kind); wrong != "" {
				return errors.New(wrong)
			}
		}
	}
	return nil
}
