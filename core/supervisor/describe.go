package supervisor

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Bounds of a description.
const (
	maxVendor   = 64
	maxVersion  = 64
	maxClasses  = 64
	maxSchema   = 256 << 10
	maxPriority = 128
)

var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	class    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	// qualified is the syntax of the names of attributes.
	qualified = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]{0,62}/)?[A-Za-z_][A-Za-z0-9_]{0,31}$`)
	// semantic is the grammar of semver.org, version 2.0.0.
	semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
)

// ParseDescription checks the answer of Describe. The error is for the operator.
func ParseDescription(wire *backendv1.DescribeResponse) (inventory.Description, error) {
	d := inventory.Description{
		Name: wire.GetName(), Vendor: wire.GetVendor(), Version: wire.GetVersion(),
		Classes:          wire.GetClasses(),
		Prepare:          slices.Contains(wire.GetAbilities(), backendv1.Ability_ABILITY_PREPARE),
		Release:          slices.Contains(wire.GetAbilities(), backendv1.Ability_ABILITY_RELEASE),
		Reset:            slices.Contains(wire.GetAbilities(), backendv1.Ability_ABILITY_RESET),
		Sample:           slices.Contains(wire.GetAbilities(), backendv1.Ability_ABILITY_SAMPLE),
		ParametersSchema: wire.GetParametersSchema(),
	}
	switch {
	case !dnsLabel.MatchString(d.Name):
		return d, fmt.Errorf("it describes itself with the name %q, which is not a DNS label", text.Printable(d.Name, 64))
	case d.Vendor == "" || len(d.Vendor) > maxVendor || d.Vendor != text.Printable(d.Vendor, maxVendor):
		return d, fmt.Errorf("it describes its vendor as %q, which is not 1 to %d printable bytes", text.Printable(d.Vendor, maxVendor), maxVendor)
	case len(d.Version) > maxVersion || !semantic.MatchString(d.Version):
		return d, fmt.Errorf("it describes its version as %q, which is not a semantic version such as 1.4.0", text.Printable(d.Version, maxVersion))
	case len(d.Classes) == 0 || len(d.Classes) > maxClasses:
		return d, fmt.Errorf("it describes %d device classes; 1 to %d are possible", len(d.Classes), maxClasses)
	case len(wire.GetSettingsSchema()) > maxSchema:
		return d, fmt.Errorf("the schema of its settings is %d bytes long; at most %d are possible", len(wire.GetSettingsSchema()), maxSchema)
	}
	for i, name := range d.Classes {
		if name == "holder" {
			return d, errors.New("it describes the device class holder, which is reserved for the core")
		}
		if !class.MatchString(name) {
			return d, fmt.Errorf("it describes the device class %q, which is not a lower-case letter, then lower-case letters, digits or dashes", text.Printable(name, 64))
		}
		if slices.Contains(d.Classes[:i], name) {
			return d, fmt.Errorf("it describes the device class %s twice", name)
		}
	}
	var err error
	if d.Parameters, err = parameters(d); err != nil {
		return d, err
	}
	d.AttributePriority = wire.GetAttributePriority()
	if n := len(d.AttributePriority); n > maxPriority {
		return d, fmt.Errorf("it describes the priority of %d attributes; at most %d are possible", n, maxPriority)
	}
	if i := slices.IndexFunc(d.AttributePriority, func(name string) bool { return !qualified.MatchString(name) }); i >= 0 {
		return d, fmt.Errorf("its attribute priority has %q, which is not the name of an attribute", text.Printable(d.AttributePriority[i], 128))
	}
	if d.Attributes, err = ParseAttributes(wire.GetAttributes()); err != nil {
		return d, err
	}
	d.Needs, err = ParseNeeds(wire.GetNeeds())
	return d, err
}
