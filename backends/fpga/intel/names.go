package intel

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Domain is that of the names of resources.
const Domain = "fpga.intel.com"

// AFName returns the name of the resource of an accelerator function behind an interface:
// fpga.intel.com/af-<3 digits of each>.<…>.<base64url of both>, as users of Intel's
// device plugin know it. Each name is one pair of IDs. It fails if an ID is not one,
// is empty or, for the AFU, means that none is loaded.
func AFName(interfaceID, afu string) (string, error) {
	i, err := needed("interface ID", interfaceID)
	if err != nil {
		return "", err
	}
	a, err := needed("AFU ID", afu)
	if err != nil {
		return "", err
	}
	both, err := hex.DecodeString(i + a)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/af-%s.%s.%s", Domain, i[:3], a[:3], base64.RawURLEncoding.EncodeToString(both)), nil
}

// RegionName returns the name of the resource of regions with an interface, such as
// fpga.intel.com/region-9346116da52d5ca8b06aa9a389ef7c8d. It fails as [AFName] does.
func RegionName(interfaceID string) (string, error) {
	i, err := needed("interface ID", interfaceID)
	if err != nil {
		return "", err
	}
	return Domain + "/region-" + i, nil
}

// KindName returns the resource name for regions of a card without an interface ID, made of the
// PCI IDs of vendor, device and, if known, subsystem, such as
// fpga.intel.com/region-8086-bcce-17d4. So equal cards have the same name on all nodes. The
// functions of a card may differ, so physical functions above 0 have their number in the
// name, as in region-8086-bcce-1770-f1. Virtual functions are alike and have none: their
// numbers are different in a virtual machine.
func (c Card) KindName() string {
	name := fmt.Sprintf("%s/region-%04x-%04x", Domain, c.PCI.Vendor, c.PCI.ID)
	if c.Subsystem != 0 {
		name += fmt.Sprintf("-%04x", c.Subsystem)
	}
	if f := c.PCI.Address.Function; f > 0 && c.Physical == nil {
		name += fmt.Sprintf("-f%d", f)
	}
	return name
}

func needed(what, text string) (string, error) {
	id, err := ParseID(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case id == "":
		return "", fmt.Errorf("there is no %s", what)
	case allOnes(id):
		return "", fmt.Errorf("%s is all f, which means that there is none", what)
	}
	return id, nil
}

// RegionName returns the name by the card's interface ID, or KindName if it has none.
func (c Card) RegionName() string {
	if name, err := RegionName(c.Interface); err == nil {
		return name
	}
	return c.KindName()
}

// AFName returns the name of what is loaded in a port of the card; see [AFName].
func (c Card) AFName(p Port) (string, error) { return AFName(c.Interface, p.AFU) }
