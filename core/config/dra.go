package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DRA is how a backend's devices are served by dynamic resource allocation: those of resources
// with APIDRA.
type DRA struct {
	// Driver is the name of the driver in ResourceSlices, DeviceClasses and claims: a DNS
	// subdomain of at most 63 characters that no other backend of the profile has. Default: the
	// backend's name and DriverDomainSuffix.
	Driver string `yaml:"driver"`
	// Evict is whether a fault that reaches the holders of a device evicts their pods: then its
	// taint has the effect NoExecute. Default false: NoSchedule.
	Evict bool `yaml:"evict"`
	// Metadata is whether containers get files with the attributes of their devices
	// (https://kep.k8s.io/5304). They cost two more files on disk for each request of a claim.
	// Default false.
	Metadata bool `yaml:"metadata"`
	// Kinds are the kinds of opaque parameters that claims and device classes may have beside
	// accelmux's own; at most 16.
	Kinds []OpaqueKind `yaml:"kinds"`
}

// OpaqueKind is a kind of opaque parameters that was made for another driver, and what its fields
// mean to the backend.
type OpaqueKind struct {
	// APIVersion is group/version, such as gpu.resource.example.com/v1alpha1.
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Fields are the fields that an object may have, beside apiVersion and kind: the path of a
	// field without fields of its own, such as sharing.strategy, and the name of the backend's
	// parameter that gets its value; at most 32. An object without any of them is accepted.
	Fields map[string]string `yaml:"fields"`
}

// DriverDomainSuffix follows a backend's name in the default name of its DRA driver.
const DriverDomainSuffix = ".accelmux.io"

// maxDriver is the API server's bound (resource.k8s.io/v1, DriverNameMaxLength).
const maxDriver = 63

// checkDriver requires what the API server requires of the name of a DRA driver.
func checkDriver(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("must be a DNS name of lower-case letters, digits, dashes and dots, such as gpu.example.com, is %s", show(name))
	}
	if len(name) > maxDriver {
		return fmt.Errorf("is too long for the name of a DRA driver: %d characters, at most %d", len(name), maxDriver)
	}
	return nil
}

// maxKinds bounds the kinds of a backend.
const maxKinds = 16

var (
	versionSyntax = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/v[a-z0-9]{1,62}$`)
	kindSyntax    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	fieldSyntax   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)
)

// maxField bounds the path of a field.
const maxField = 253

// kinds checks the kinds of other drivers' parameters.
func (v *validator) kinds(path string, all []OpaqueKind) {
	if len(all) > maxKinds {
		v.report(path, "at most %d kinds are possible, these are %d", maxKinds, len(all))
	}
	seen := map[string]string{}
	for i := range all {
		k, at := &all[i], itemPath(path, i)
		if v.required(at+".apiVersion", k.APIVersion, ", such as gpu.resource.example.com/v1alpha1") {
			v.check(at+".apiVersion", checkKindVersion(k.APIVersion))
		}
		if v.required(at+".kind", k.Kind, ", such as GpuConfig") && !kindSyntax.MatchString(k.Kind) {
			v.report(at+".kind", "must be letters and digits, starting with a capital letter, at most 63, is %s", show(k.Kind))
		}
		v.unique(seen, at+".kind", k.Kind+" of "+k.APIVersion)
		v.kindFields(at+".fields", k.Fields)
	}
}

// kindFields checks the fields of a kind. Two of them must not be one parameter: an object may have
// both.
func (v *validator) kindFields(path string, fields map[string]string) {
	if len(fields) > maxParameters {
		v.report(path, "at most %d fields are possible, these are %d", maxParameters, len(fields))
	}
	parameters := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		at, parameter := FieldPath(path, field), fields[field]
		v.check(at, checkField(field))
		v.check(at, checkIdentifier("a parameter of the backend", parameter))
		if other, dup := parameters[parameter]; dup {
			v.report(at, "the parameter %s is already that of the field %s", show(parameter), other)
		}
		parameters[parameter] = field
	}
}

func checkKindVersion(version string) error {
	switch group, _, _ := strings.Cut(version, "/"); {
	case !versionSyntax.MatchString(version) || len(group) > validation.DNS1123SubdomainMaxLength:
		return fmt.Errorf("must be group/version, such as gpu.resource.example.com/v1alpha1, is %s", show(version))
	case version == APIVersion:
		return fmt.Errorf("%s is accelmux's own: its kind is always accepted", version)
	}
	return nil
}

func checkField(path string) error {
	switch {
	case !fieldSyntax.MatchString(path) || len(path) > maxField:
		return fmt.Errorf("must be the path of a field, names of letters, digits, dashes and underscores with dots in between, such as sharing.strategy, is %s", show(path))
	case path == "apiVersion" || path == "kind":
		return fmt.Errorf("%s is no parameter", path)
	}
	return nil
}
