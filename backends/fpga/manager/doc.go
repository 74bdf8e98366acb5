// Package manager lists FPGAs of any vendor under Linux's FPGA subsystem
// (Documentation/driver-api/fpga in Linux): those of SoCs, behind SPI, and cards on PCI whose
// driver has no interface of its own.
//
//	/sys/class/fpga_manager/fpgaN   how it is, and in some kernels programming: a card
//	/sys/class/fpga_region/regionN  what is programmed: a region of the card
//
// Only the device tree (fpga-mgr) shows which manager a region has, or that both are in
// one PCI function. A manager without regions is one region as a whole. A region with
// others in it is their static part: those within are listed, it is not.
//
// Intel's cards under DFL or OPAE, and AMD's under XRT, have managers and regions too; the
// packages for them list these.
//
// The kernel does not report the loaded content, except the name of a file that an overlay of
// the device tree loaded. A region is never in the state Loaded, and a requested bitstream is
// programmed each time. There is no reset either.
//
// A container gets the character devices below its region, and always the variables
// FPGA_MANAGER and FPGA_REGION with the names in the classes: some regions have nothing
// else, as their devices are on a bus of the SoC, where their owner is not known.
//
// States are those of the manager, for all of its regions. Some drivers report "write
// init" for an FPGA that was not programmed since the node started; it is busy then.
//
// Linux itself lets no program load a bitstream: overlays of the device tree do. The
// kernel of AMD for its SoCs does, by the name of a file among its firmware, and not
// through a region: see [Driver.Program].
package manager
