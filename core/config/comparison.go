package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/suggestion"
)

// Comparison is a place of a selector that is for attributes of one kind only: of others it is an error for each device, or
// never true. It may also be of device.driver.
type Comparison struct {
	Reference Reference
	// kind is that of a manifest's attributes: string, int, bool or version.
	kind string
	// operator is that of a comparison, or the name of a function; "" for an attribute that is used as true or false.
	operator string
	// value is what the attribute is compared with, as text.
	value string
}

// Comparisons returns the comparisons of attributes in a selector that [CompileSelector] accepted, in their order.
func Comparisons(compiled *dracel.CompilationResult) ([]Comparison, error) {
	checked, issues := compiled.Environment.Compile(compiled.Expression)
	if issues != nil && issues.Err() != nil {
		return nil, fmt.Errorf("does not compile: %w", issues.Err())
	}
	c := comparer{finder: finder{bound: map[string]Reference{}}}
	root := checked.NativeRep().Expr()
	c.add(root, Comparison{kind: "bool"})
	ast.PreOrderVisit(root, ast.NewExprVisitor(c.visit))
	return c.found, nil
}

// comparer finds comparisons. Its finder knows the variables.
type comparer struct {
	finder finder
	found  []Comparison
}

// versionParts matches what a version begins with.
var versionParts = regexp.MustCompile(`^\d+(\.\d+){0,2}`)

// textFunctions are those of texts.
var textFunctions = []string{"startsWith", "endsWith", "contains", "matches", "lowerAscii", "upperAscii", "size"}

func (c *comparer) visit(e ast.Expr) {
	c.finder.visit(e)
	if e.Kind() != ast.CallKind {
		return
	}
	call := e.AsCall()
	args, name := call.Args(), call.FunctionName()
	switch name {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		operator := operatorName.FindStringSubmatch(name)[1]
		c.add(args[0], comparedWith(args[1], operator))
		c.add(args[1], comparedWith(args[0], strings.NewReplacer("<", ">", ">", "<").Replace(operator)))
	case operators.In:
		if args[1].Kind() == ast.ListKind {
			for _, value := range args[1].AsList().Elements() {
				c.add(args[0], comparedWith(value, "in"))
			}
		}
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		for _, arg := range args {
			c.add(arg, Comparison{kind: "bool"})
		}
	case "isGreaterThan", "isLessThan", "compareTo":
		if call.IsMemberFunction() && len(args) == 1 {
			c.add(call.Target(), comparedWith(args[0], name))
		}
	default:
		switch {
		case call.IsMemberFunction() && slices.Contains(textFunctions, name):
			c.add(call.Target(), Comparison{kind: "string", operator: name})
		case name == "size" && len(args) == 1:
			c.add(args[0], Comparison{kind: "string", operator: name})
		}
	}
}

// add adds a comparison of an expression, if that is an attribute and the kind is known.
func (c *comparer) add(of ast.Expr, as Comparison) {
	var name string
	var domain ast.Expr
	switch {
	case of.Kind() == ast.SelectKind && of.AsSelect().FieldName() == driverField && isDevice(of.AsSelect().Operand()):
		as.Reference.Field = driverField
		c.found = append(c.found, as)
		return
	case of.Kind() == ast.SelectKind && !of.AsSelect().IsTestOnly():
		domain, name = of.AsSelect().Operand(), of.AsSelect().FieldName()
	case of.Kind() == ast.CallKind && of.AsCall().FunctionName() == operators.Index:
		domain = of.AsCall().Args()[0]
		name, _ = literal(of.AsCall().Args()[1])
	default:
		return
	}
	reference, ok := c.finder.domain(domain)
	if !ok || name == "" || as.kind == "" || reference.IsCapacity() {
		return
	}
	as.Reference, as.Reference.Name = reference, name
	c.found = append(c.found, as)
}

// checkDriver returns an error if a comparison of device.driver, the name of a backend, is with a name that no backend has.
func (c Comparison) checkDriver(backends []string) error {
	if c.Reference.Field != driverField || c.kind != "string" || c.operator != "==" && c.operator != "in" || slices.Contains(backends, c.value) {
		return nil
	}
	return fmt.Errorf("device.driver is the name of a backend, and no backend here is named %s%s", show(c.value), suggestion.OrAll(c.value, "the names are", backends))
}

// comparedWith is a comparison with a literal; one without a kind if it is none.
func comparedWith(e ast.Expr, operator string) Comparison {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "semver" && len(e.AsCall().Args()) > 0 {
		value, _ := literal(e.AsCall().Args()[0])
		return Comparison{kind: "version", operator: operator, value: value}
	}
	if e.Kind() != ast.LiteralKind {
		return Comparison{}
	}
	kind := ""
	switch e.AsLiteral().(type) {
	case types.String:
		kind = "string"
	case types.Int, types.Uint, types.Double:
		kind = "int"
	case types.Bool:
		kind = "bool"
	case types.Null:
		kind = nullKind
	}
	return Comparison{kind: kind, operator: operator, value: fmt.Sprint(e.AsLiteral().Value())}
}

// nullKind is the kind of a comparison with null, which no attribute is.
const nullKind = "null"

// Mismatch returns what is wrong if the attribute is of a kind of a manifest; "" if nothing is, or for another kind.
func (c Comparison) Mismatch(kind string) string {
	names := map[string]string{"string": "a text", "int": "a whole number", "bool": "true or false", "version": "a version"}
	if names[kind] == "" || kind == c.kind {
		return ""
	}
	if c.kind == nullKind {
		if c.operator != "==" { // which holds, for an attribute that there is
			return ""
		}
		return fmt.Sprintf("%s is never null: write !has(%[1]s)", c.Reference)
	}
	use := "is used as true or false"
	switch {
	case c.value != "":
		use = "is compared with " + names[c.kind]
	case c.operator != "":
		use = c.operator + " is for texts"
	}
	right, isMeant := c.right(kind)
	hint := "compare it, as in "
	if isMeant {
		hint = "write "
	}
	return fmt.Sprintf("%s is %s, and %s: %s%s", c.Reference, names[kind], use, hint, right)
}

// Never returns what is wrong if an attribute that is one of these texts is compared with another; "" if nothing is.
func (c Comparison) Never(values []string) string {
	if c.kind != "string" || !slices.Contains([]string{"==", "!=", "in"}, c.operator) || slices.Contains(values, c.value) {
		return ""
	}
	return fmt.Sprintf("%s is never %s%s", c.Reference, show(c.value), suggestion.OrAll(c.value, "it is one of", values))
}

// right returns the comparison of an attribute of a kind, and whether it is that with the value; otherwise it is an example.
func (c Comparison) right(kind string) (expression string, isMeant bool) {
	operator := c.operator
	if operatorName.FindString("_"+operator+"_") == "" {
		operator = "=="
	}
	numbers := versionParts.FindString(c.value)
	value := "1"
	switch kind {
	case "string":
		if isMeant = c.value != ""; isMeant {
			return fmt.Sprintf("%s %s %q", c.Reference, operator, c.value), true
		}
		value = `"..."`
	case "int":
		if isMeant = numbers != "" && numbers == c.value && !strings.Contains(numbers, "."); isMeant {
			value = numbers
		}
	case "bool":
		value = "true"
		if isMeant = c.value == "true" || c.value == "false"; isMeant {
			value = c.value
		}
	case "version":
		if isMeant = numbers != ""; !isMeant {
			numbers = "1.2.3"
		}
		numbers += strings.Repeat(".0", 2-strings.Count(numbers, "."))
		return fmt.Sprintf("%s.compareTo(semver(%q)) %s 0", c.Reference, numbers, operator), isMeant
	}
	return fmt.Sprintf("%s %s %s", c.Reference, operator, value), isMeant
}
