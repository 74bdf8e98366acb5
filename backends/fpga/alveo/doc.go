// Package alveo finds AMD's (Xilinx's) Alveo cards under XRT's drivers, reports their state,
// programs and resets them. [Read] returns the content of sysfs; [Driver] implements the
// interface of all FPGA drivers.
//
// A card has two PCI functions, or one of them in a virtual machine and the other on
// its host:
//
//	Card
//	  ├─ Management, under xclmgmt: flashes the shell, resets, sees the firewalls
//	  └─ User, under xocl: what a container is given
//	       ├─ Shell: the static part, which has a name, a time and UUIDs
//	       └─ an xclbin in the rest, loaded while the card runs
//
// Names of files and their forms are those of XRT's drivers: userpf/xocl_sysfs.c,
// mgmtpf/mgmt-sysfs.c and subdev/ below src/runtime_src/core/pcie/driver/linux/xocl of
// https://github.com/Xilinx/XRT, and https://xilinx.github.io/XRT/master/html/sysfs.html.
package alveo
