// Package fpgatree makes what a kernel with FPGAs shows, Intel's cards, AMD's Alveo
// cards under XRT and those of any vendor under Linux's FPGA subsystem: the trees /sys
// and /dev, in a directory, for tests on machines without such hardware.
//
// A [Machine] says what is plugged in, and [Write] makes the tree; [Unpack] makes it
// of a capture of a real card. Methods change it while others read it: another AFU,
// an error register, a temperature alarm, a card that goes, a driver that is loaded
// anew, a file that is damaged. README.md says by which rules the tree is made.
//
// The package knows the kernel's side only; it imports none of the code that reads
// such trees but for the form of PCI addresses.
package fpgatree
