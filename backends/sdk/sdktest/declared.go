package sdktest

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Declared verifies that a manifest declares all attributes and capacities of devices, and of their kinds. It knows no names
// that settings define ("keys") or that depend on them ("when").
func Declared(tb testing.TB, manifest string, devices []*backendv1.Device) {
	tb.Helper()
	var doc struct {
		Attributes []struct{ Name, Kind string }
	}
	if err := yaml.Unmarshal([]byte(manifest), &doc); err != nil {
		tb.Fatal(err)
	}
	declared := func(name, kind string) bool {
		for _, a := range doc.Attributes {
			prefix, isPattern := strings.CutSuffix(a.Name, "*")
			isNamed := a.Name == name || isPattern && strings.HasPrefix(name, prefix)
			if isNamed && (a.Kind == kind || a.Kind == "" && kind != "capacity") {
				return true
			}
		}
		return false
	}
	for _, d := range devices {
		for name, value := range d.GetAttributes() {
			if kind := kindOf(value); !declared(name, kind) {
				tb.Errorf("%s has the attribute %s, of kind %s, which the manifest does not declare", d.GetId(), name, kind)
			}
		}
		for name := range d.GetCapacities() {
			if !declared(name, "capacity") {
				tb.Errorf("%s has the capacity %s, which the manifest does not declare", d.GetId(), name)
			}
		}
	}
}

// kindOf returns the kind of an attribute as manifests have it.
func kindOf(a *backendv1.Attribute) string {
	switch a.GetValue().(type) {
	case *backendv1.Attribute_StringValue:
		return "string"
	case *backendv1.Attribute_IntValue:
		return "int"
	case *backendv1.Attribute_BoolValue:
		return "bool"
	case *backendv1.Attribute_VersionValue:
		return "version"
	case *backendv1.Attribute_StringValues:
		return "strings"
	case *backendv1.Attribute_IntValues:
		return "ints"
	case *backendv1.Attribute_BoolValues:
		return "bools"
	case *backendv1.Attribute_VersionValues:
		return "versions"
	}
	return "none"
}
