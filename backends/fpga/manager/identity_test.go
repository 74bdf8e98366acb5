package manager

import "testing"

// Verifies that the place of a device does not have what the kernel counts in the order of discovery: the same
// hardware found in two orders has one ID.
func TestPlaceDoesNotDependOnDiscovery(t *testing.T) {
	for one, other := range map[string]string{
		"platform/soc/ff705000.spi/spi0/spi0.1":        "platform/soc/ff705000.spi/spi3/spi3.1",
		"platform/soc/ff705000.i2c/i2c-1/1-0040":       "platform/soc/ff705000.i2c/i2c-2/2-0040",
		"platform/card.0.auto":                         "platform/card.7.auto",
		"pci0000:00/0000:00:14.0/usb1/1-2.3/1-2.3:1.0": "pci0000:00/0000:00:14.0/usb2/2-2.3/2-2.3:1.0",
	} {
		if a, b := placeOf(one, "", nil).id(), placeOf(other, "", nil).id(); a != b {
			t.Errorf("%s is %s, %s is %s", one, a, other, b)
		}
	}
	if a, b := placeOf("platform/x.i2c/i2c-1/1-0040", "", nil).id(), placeOf("platform/x.i2c/i2c-1/1-0041", "", nil).id(); a == b {
		t.Errorf("two addresses on a bus have the ID %s", a)
	}
}
