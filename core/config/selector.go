package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

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
		found = append(found, place+strings.TrimSpace(m[3])+hint(m[3]))
	}
	if len(found) == 0 {
		found = []string{detail}
	}
	return text.Printable(strings.Join(found, "; "), maxDetail)
}

// celComparison matches an operator that CEL does not have for quantities and versions.
var celComparison = regexp.MustCompile(`no matching overload for '_([<>]=?|[!=]=)_' applied to '\(.*kubernetes\.(Quantity|Semver)`)

// celName matches a name that CEL does not know, and celSuffix the suffix of a quantity after a number.
var (
	celName   = regexp.MustCompile(`undeclared reference to|undefined field`)
	celSuffix = regexp.MustCompile(`extraneous input '([kMGTPE]i?|Ki)'`)
)

// hint returns how to write what an error is about; "" if that is not known.
func hint(message string) string {
	m := celComparison.FindStringSubmatch(message)
	switch {
	case celName.MatchString(message):
		return `; a selector reads device.driver, device.attributes["DOMAIN"].NAME and device.capacity["DOMAIN"].NAME`
	case celSuffix.MatchString(message):
		return `; a quantity is written quantity("8Gi")`
	case m == nil:
		return ""
	}
	example := map[string]string{"Quantity": `quantity("8Gi")`, "Semver": `semver("1.2.3")`}[m[2]]
	return fmt.Sprintf("; compare by x.compareTo(%s) %s 0", example, m[1])
}
