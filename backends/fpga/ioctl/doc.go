// Package ioctl has the requests of Intel's FPGA drivers that reset and program a port, with the
// layout of their arguments. It reads no sysfs, opens no file of a bitstream and decides
// nothing; package intel does.
//
// There are two families. DFL is Linux's own (include/uapi/linux/fpga-dfl.h,
// drivers/fpga/dfl-afu-main.c and dfl-fme-pr.c), OPAE is Intel's older driver outside
// of Linux (intel-fpga.h of the OPAE SDK, intel-fpga-fme-pr.c). Their requests have the
// same numbers under another type byte, and their arguments are not the same.
//
// # Rules for callers
//
// A request in the kernel cannot be interrupted: both drivers wait for the card and ignore
// signals, a reset for 1 ms at most, a programming for up to 8 s at each of several steps. A
// caller that must return earlier makes the request in a goroutine of its own and leaves that
// behind; the node must stay open and the payload mapped until the request returns.
//
// Opening a port's node has an effect: when it is closed for the last time,
// the kernel resets the port (afu_release in dfl-afu-main.c). If a container has it
// open, nothing happens.
//
// A port of a virtual function is programmed by the engine of the physical one, and
// reset by its own node.
package ioctl
