package inventory

import (
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Declaration is an attribute or a capacity that a backend declares.
type Declaration struct {
	// Name is as devices have it. One that ends in "*" stands for all names that begin so, of any kind.
	Name        string        `json:"name"`
	Kind        AttributeKind `json:"kind,omitempty"`
	Description string        `json:"description"`
}

// Limits are what settings leave of the devices that a manifest declares, as far as it says so. They are for checks before
// anything runs: no device is refused because of them.
type Limits struct {
	// Presets are the names of the presets if the settings have no kind of devices.
	Presets []string
	// Absent are the classes without devices, each with the settings that it takes, for people.
	Absent map[string]string
	// Potential are the classes whose devices are made for claims.
	Potential []string
	// PreparedFor is the number of containers for which the devices of a class are set up.
	PreparedFor map[string]int
	// Labels are the prefixes of the labels of the node; nil if they are not known.
	Labels []string
	// Values are the texts that an attribute can be.
	Values map[string][]string
	// Owners are the classes of the devices that have an attribute; without an entry those of all classes have it.
	Owners map[string]Owners
}

// Owners are the classes of the devices that have an attribute, and the settings that more of them take, for people.
type Owners struct {
	Classes []string
	Takes   string
}

// AttributeKind is the type of an attribute's values, or that of capacities.
type AttributeKind string

// The kinds.
const (
	AnyKind      AttributeKind = ""
	StringKind   AttributeKind = "string"
	IntKind      AttributeKind = "int"
	BoolKind     AttributeKind = "bool"
	VersionKind  AttributeKind = "version"
	StringsKind  AttributeKind = "strings"
	IntsKind     AttributeKind = "ints"
	BoolsKind    AttributeKind = "bools"
	VersionsKind AttributeKind = "versions"
	CapacityKind AttributeKind = "capacity"
)

// KindOf returns the kind of an attribute's value; AnyKind if it has none.
func KindOf(w *backendv1.Attribute) AttributeKind {
	switch w.GetValue().(type) {
	case *backendv1.Attribute_StringValue:
		return StringKind
	case *backendv1.Attribute_IntValue:
		return IntKind
	case *backendv1.Attribute_BoolValue:
		return BoolKind
	case *backendv1.Attribute_VersionValue:
		return VersionKind
	case *backendv1.Attribute_StringValues:
		return StringsKind
	case *backendv1.Attribute_IntValues:
		return IntsKind
	case *backendv1.Attribute_BoolValues:
		return BoolsKind
	case *backendv1.Attribute_VersionValues:
		return VersionsKind
	}
	return AnyKind
}

// Declares reports whether one of the declarations is that of an attribute of the kind with the name, or of such a
// capacity. AnyKind is that of every attribute.
func Declares(all []Declaration, name string, kind AttributeKind) bool {
	for _, d := range all {
		if prefix, open := strings.CutSuffix(d.Name, "*"); open && strings.HasPrefix(name, prefix) {
			return true
		}
		if d.Name == name && (d.Kind == kind || kind != CapacityKind && d.Kind != CapacityKind && (kind == AnyKind || d.Kind == AnyKind)) {
			return true
		}
	}
	return false
}
