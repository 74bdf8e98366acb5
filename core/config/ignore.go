package config

import "slices"

// Ignores reports whether the profile leaves an accelerator out on purpose, by its PCI IDs: four
// lower-case hexadecimal digits each. The nil profile ignores none.
func (p *Profile) Ignores(vendor, device string) bool {
	return p != nil && (slices.Contains(p.IgnorePCI, vendor) || slices.Contains(p.IgnorePCI, vendor+":"+device))
}
