// Package pci reads PCI devices from sysfs, and parses and formats their addresses. It is
// specific to no vendor and opens no device.
package pci
