// Package intel finds Intel FPGA cards, and others with the device feature list (DFL), in sysfs:
//
//	/sys/class/fpga_region   the driver in Linux, DFL
//	/sys/class/fpga          the older driver of OPAE
//
//	PCI function ── region ─┬─ engine (FME): interface ID, bitstream, errors
//	      │                 └─ ports: AFU ID, errors, power state
//	      └─physfn─► the function that has the engine of a virtual one's port
//
// Both drivers are read into one model, independent of the names and places of their files. A
// card or a port that answers only in part is left out with a [Problem]; the others stay. A
// value that the kernel does not report, such as the AFU IDs of OFS cards, is empty and no
// problem.
//
// No link is followed but those of the classes and of PCI: in captures of real cards regions
// have links to themselves, and dangling links.
//
// [Read] and [Sensors] only read. [Driver] is for the backend: it reports a card's faults, and
// programs and resets ports by the requests of package ioctl.
//
//	Fits ─► Program: engine's node ◄─ payload, mapped ─► port reports afu_id
//	        Reset:   port's node; registers ◄─ their own value
package intel
