// Package reset is what the resets of all vendors' devices have in common: one at a
// time, abandoned when its time is up ([Runner]), and the reset that the kernel's PCI
// subsystem offers for any device ([ByPCI]). It does not decide whether a device may be
// reset; the core does, and the backend.
package reset
