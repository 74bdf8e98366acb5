// Package intel finds Intel FPGA cards, and others that speak the device feature list
// (DFL), by what the kernel says in sysfs:
//
//	/sys/class/fpga_region   the driver in Linux, DFL
//	/sys/class/fpga          the older driver of OPAE
//
//	PCI function ── region ─┬─ engine (FME): interface ID, bitstream, errors
//	      │                 └─ ports: AFU ID, errors, power state
//	      └─physfn─► the function that has the engine of a virtual one's port
//
// Both drivers give one model; names and places of files that differ stay inside. A
// card or a port that only half answers is left out with a [Problem]; the others stay.
// What the kernel does not say of a card, as OFS cards have no AFU IDs, is empty and no
// problem.
//
// No link is followed but those of the classes and of PCI: in captures of real cards
// regions have links to themselves, and links that lead nowhere.
//
// [Read] and [Sensors] only read. [Driver] is what the backend uses: it says what is
// wrong with a card, and programs and resets ports by the requests of package ioctl.
//
//	Fits ─► Program: engine's node ◄─ payload, mapped ─► port says afu_id
//	        Reset:   port's node; registers ◄─ their own value
package intel
