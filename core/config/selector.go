package config

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
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

// Standard lists the attributes in Kubernetes' own domain that the core adds to devices: by them selectors, and claims for
// devices of several drivers, match what all drivers publish.
func Standard() []string {
	return []string{
		string(deviceattribute.StandardDeviceAttributePCIBusID), string(deviceattribute.StandardDeviceAttributePCIeRoot), string(deviceattribute.StandardDeviceAttributeNUMANode),
	}
}

// coreKind returns the kind of an attribute that the core adds to devices, as manifests name it; "" if it adds none of that
// name.
func coreKind(domain, name string) string {
	isFact := domain == FactsDomain && slices.Contains(Facts(), name)
	switch {
	case !isFact && !slices.Contains(Standard(), domain+"/"+name):
		return ""
	case name == FactNUMANode:
		return "int"
	case name == FactBackendVersion:
		return "version"
	}
	return "string"
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
		return nil, errors.New("is not a CEL expression: " + explain(expression, result.Error.Detail))
	}
	if result.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		return nil, fmt.Errorf("may become too expensive: its cost is estimated at up to %d units, at most %d are allowed",
			result.MaxCost, resourceapi.CELSelectorExpressionMaxCost)
	}
	if err := checkLiterals(&result); err != nil {
		return nil, err
	}
	return &result, nil
}
