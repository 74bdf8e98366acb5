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
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/suggestion"
	"github.com/accelmux/accelmux/core/text"
)

// FactsDomain is the domain of the attributes that the core adds to every device:
// device.attributes["accelmux.io"].class. It is not a backend's domain: the name of a backend
// has no dot.
const FactsDomain = "accelmux.io"

// The attributes in FactsDomain. Health is not among them: a fault must not move a device to
// another resource.
const (
	FactID             = "id"             // string: the device's ID
	FactClass          = "class"          // string
	FactNUMANode       = "numaNode"       // int; missing if unknown or several
	FactPCIBusID       = "pciBusID"       // string; missing if there is none
	FactParent         = "parent"         // string; missing for a whole device
	FactVendor         = "vendor"         // string: the backend's vendor
	FactBackendVersion = "backendVersion" // version; missing if it is not one
)

// Facts lists the attributes in FactsDomain.
func Facts() []string {
	return []string{FactID, FactClass, FactNUMANode, FactPCIBusID, FactParent, FactVendor, FactBackendVersion}
}

// CompileSelector compiles a selector with the compiler, the limits (length,
// estimated and actual cost) and the environment of DRA's device selectors. The
// result is safe for concurrent use. The error is one line.
func CompileSelector(expression string) (*dracel.CompilationResult, error) {
	if len(expression) > resourceapi.CELSelectorExpressionMaxLength {
		return nil, fmt.Errorf("is too long: %d bytes, at most %d", len(expression), resourceapi.CELSelectorExpressionMaxLength)
	}
	result := dracel.GetCompiler(dracel.Features{EnableListTypeAttributes: true}).CompileCELExpression(expression, dracel.Options{})
	if result.Error != nil {
		return nil, errors.New("does not compile: " + compileDetail(result.Error.Detail))
	}
	if result.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		return nil, fmt.Errorf("may become too expensive: its cost is estimated at up to %d units, at most %d are allowed",
			result.MaxCost, resourceapi.CELSelectorExpressionMaxCost)
	}
	return &result, nil
}

// maxDetail bounds the text of a compiler's errors, in bytes.
const maxDetail = 1024

// celError matches the first line of a cel-go error; two lines that show the place follow.
var celError = regexp.MustCompile(`ERROR: <input>:(-?\d+):(\d+): (.*)`)

// compileDetail returns the compiler's errors on one line.
func compileDetail(detail string) string {
	var found []string
	for _, m := range celError.FindAllStringSubmatch(detail, -1) {
		place := "at line " + m[1] + ", column " + m[2] + ": "
		switch m[1] {
		case "1":
			place = "at column " + m[2] + ": "
		case "-1": // of the expression as a whole
			place = ""
		}
		found = append(found, place+strings.TrimSpace(m[3])+comparisonHint(m[3]))
	}
	if len(found) == 0 {
		found = []string{detail}
	}
	return text.Printable(strings.Join(found, "; "), maxDetail)
}

// celComparison matches an operator that CEL does not have for quantities and versions.
var celComparison = regexp.MustCompile(`no matching overload for '_([<>]=?|[!=]=)_' applied to '\(.*kubernetes\.(Quantity|Semver)`)

// comparisonHint returns how to write what an error is about; "" if it is about something else.
func comparisonHint(message string) string {
	m := celComparison.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	example := map[string]string{"Quantity": `quantity("8Gi")`, "Semver": `semver("1.2.3")`}[m[2]]
	return fmt.Sprintf("; compare by x.compareTo(%s) %s 0", example, m[1])
}

// checkSelectorDomains returns an error for domains and facts that no device has. CEL has an
// empty map for an unknown domain, so a misspelt one would silently select nothing.
func checkSelectorDomains(compiled *dracel.CompilationResult, backends []string) error {
	checked, issues := compiled.Environment.Compile(compiled.Expression)
	if issues != nil && issues.Err() != nil {
		return fmt.Errorf("does not compile: %w", issues.Err())
	}
	var problem error
	root := checked.NativeRep().Expr()
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if problem == nil {
			problem = checkDomain(e, backends)
		}
	}))
	return problem
}

func checkDomain(e ast.Expr, backends []string) error {
	if e.Kind() == ast.SelectKind {
		if field, domain, ok := deviceDomain(e.AsSelect().Operand()); ok && field == "attributes" && domain == FactsDomain {
			if fact := e.AsSelect().FieldName(); !slices.Contains(Facts(), fact) {
				return fmt.Errorf("no attribute %s in the domain %q%s; it has %s",
					show(fact), FactsDomain, suggestion.DidYouMean(fact, Facts()), strings.Join(Facts(), ", "))
			}
		}
	}
	field, domain, ok := deviceDomain(e)
	if !ok {
		return nil
	}
	domains := slices.Clone(backends)
	if field == "attributes" {
		domains = append(domains, FactsDomain)
	}
	// A domain with a dot is not a backend's: several vendors may share its attributes.
	if !slices.Contains(domains, domain) && (domain == FactsDomain || !strings.Contains(domain, ".")) {
		return fmt.Errorf("no device that can be selected here has %s in the domain %s%s; the domains here are %s (a backend's domain is its name in this configuration)",
			field, show(domain), suggestion.DidYouMean(domain, domains), strings.Join(domains, ", "))
	}
	return nil
}

// deviceDomain recognises device.attributes["domain"] and device.capacity["domain"].
func deviceDomain(e ast.Expr) (field, domain string, ok bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index || len(e.AsCall().Args()) != 2 {
		return "", "", false
	}
	of, index := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if of.Kind() != ast.SelectKind || index.Kind() != ast.LiteralKind {
		return "", "", false
	}
	operand := of.AsSelect().Operand()
	if operand.Kind() != ast.IdentKind || operand.AsIdent() != "device" {
		return "", "", false
	}
	literal, isString := index.AsLiteral().(types.String)
	return of.AsSelect().FieldName(), string(literal), isString
}
