package pci

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Address is the address of a PCI function. It can be compared and used as a key.
type Address struct {
	// Domain has 16 bits on most machines, and more behind controllers that create domains of
	// their own (Intel VMD, Hyper-V).
	Domain uint32
	Bus    uint8
	// Device is at most 31, Function at most 7.
	Device, Function uint8
}

// ParseAddress parses an address in any of the forms that drivers and tools use:
// domain:bus:device.function in hexadecimal of either case, where the domain has one to eight
// digits, or is left out for domain 0. "00000000:65:00.0" (NVML), "0000:65:00.0" (sysfs) and
// "65:00.0" (lspci) are the same address.
func ParseAddress(s string) (Address, error) {
	wrong := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("PCI address %q: %s; want domain:bus:device.function, such as 0000:65:00.0", s, why)
	}
	rest, function, ok := strings.Cut(s, ".")
	if !ok {
		return wrong("no function")
	}
	parts := strings.Split(rest, ":")
	switch len(parts) {
	case 2:
		parts = append([]string{"0"}, parts...)
	case 3:
	default:
		return wrong("not three parts before the function")
	}
	domain, ok := hex(parts[0], 8, 0xffffffff)
	if !ok {
		return wrong("the domain is no number of one to eight hexadecimal digits")
	}
	bus, ok := hex(parts[1], 2, 0xff)
	if !ok {
		return wrong("the bus is no number of one or two hexadecimal digits")
	}
	device, ok := hex(parts[2], 2, 0x1f)
	if !ok {
		return wrong("the device is no number from 0 to 1f")
	}
	fn, ok := hex(function, 1, 7)
	if !ok {
		return wrong("the function is no number from 0 to 7")
	}
	return Address{Domain: domain, Bus: uint8(bus), Device: uint8(device), Function: uint8(fn)}, nil
}

// hex parses one to digits hexadecimal digits, and accepts nothing else.
func hex(s string, digits int, limit uint64) (uint32, bool) {
	if s == "" || len(s) > digits || strings.ContainsAny(s, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 32)
	return uint32(n), err == nil && n <= limit
}

// String returns the address as the kernel writes it in sysfs: lower case, at least four digits
// of domain.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// Compare orders addresses by domain, bus, device and function.
func (a Address) Compare(b Address) int {
	return cmp.Or(
		cmp.Compare(a.Domain, b.Domain),
		cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function),
	)
}
