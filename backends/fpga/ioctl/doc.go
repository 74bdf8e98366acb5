// Package ioctl is how Intel's FPGA drivers are told to reset a port and to program
// one: the requests of their device nodes, with the arguments to the byte. It reads no
// sysfs, opens no file of a bitstream and decides nothing; that is package intel.
//
// There are two families. DFL is Linux's own (include/uapi/linux/fpga-dfl.h,
// drivers/fpga/dfl-afu-main.c and dfl-fme-pr.c), OPAE is Intel's older driver outside
// of Linux (intel-fpga.h of the OPAE SDK, intel-fpga-fme-pr.c). Their requests have the
// same numbers under another type byte, and their arguments are not the same.
//
// # What a caller must know
//
// A request that is in the kernel cannot be interrupted: both drivers wait for the card
// without looking at signals, a reset for 1 ms at most, a programming for up to 8 s at
// each of several steps. Who must answer earlier calls from a goroutine of its own and
// leaves it behind; the node must stay open and the payload mapped until it is back.
//
// Opening a port's node is no harmless look: when the last who has it open closes it,
// the kernel resets the port (afu_release in dfl-afu-main.c). If a container has it
// open, nothing happens.
//
// A port of a virtual function is programmed by the engine of the physical one, and
// reset by its own node.
package ioctl
