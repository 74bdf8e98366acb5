// Package pci is what the kernel says of PCI devices in sysfs, and how their
// addresses are written. It knows no vendor and opens no device.
package pci
