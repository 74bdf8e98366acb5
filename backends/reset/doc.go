// Package reset is what the resets of all vendors' devices have in common: one reset at a time,
// abandoned when its context ends ([Runner]), and the reset that the kernel's PCI subsystem
// offers for any device ([ByPCI]). It does not decide whether a device may be reset; the core
// and the backend do.
package reset
