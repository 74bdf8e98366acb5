package supervisor

import (
	"fmt"
	"regexp"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// maxDeclarations bounds the attributes that a backend declares, and maxAbout the bytes of the description of one.
	maxDeclarations = 1024
	maxAbout        = 256
)

// declared is the syntax of the names of declared attributes.
var declared = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}/)?([A-Za-z_][A-Za-z0-9_]{0,31}\*?|\*)$`)

var attributeKinds = map[backendv1.AttributeKind]inventory.AttributeKind{
	backendv1.AttributeKind_ATTRIBUTE_KIND_UNSPECIFIED: inventory.AnyKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_STRING:      inventory.StringKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_INT:         inventory.IntKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_BOOL:        inventory.BoolKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_VERSION:     inventory.VersionKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_STRINGS:     inventory.StringsKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_INTS:        inventory.IntsKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_BOOLS:       inventory.BoolsKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_VERSIONS:    inventory.VersionsKind,
	backendv1.AttributeKind_ATTRIBUTE_KIND_CAPACITY:    inventory.CapacityKind,
}

// ParseAttributes checks the attributes that a backend declares. A kind of a later version of the contract is any
// kind. The error is for the operator.
func ParseAttributes(wire []*backendv1.AttributeDeclaration) ([]inventory.Declaration, error) {
	if n := len(wire); n > maxDeclarations {
		return nil, fmt.Errorf("it declares %d attributes; at most %d are possible", n, maxDeclarations)
	}
	type identity struct {
		name     string
		capacity bool
	}
	var all []inventory.Declaration
	seen := map[identity]bool{}
	for _, w := range wire {
		d := inventory.Declaration{Name: w.GetName(), Kind: attributeKinds[w.GetKind()], Description: w.GetDescription()}
		id := identity{d.Name, d.Kind == inventory.CapacityKind}
		switch {
		case !declared.MatchString(d.Name):
			return nil, fmt.Errorf(`it declares the attribute %q, which is neither a name nor the beginning of one and "*"`, text.Printable(d.Name, 128))
		case seen[id]:
			return nil, fmt.Errorf("it declares the attribute %s twice", d.Name)
		case d.Description == "" || len(d.Description) > maxAbout || d.Description != text.Printable(d.Description, maxAbout):
			return nil, fmt.Errorf("it describes the attribute %s as %q, which is not 1 to %d printable bytes", d.Name, text.Printable(d.Description, 64), maxAbout)
		}
		seen[id] = true
		all = append(all, d)
	}
	return all, nil
}
