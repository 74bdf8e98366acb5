// Package machine is a virtual machine with a real Linux kernel and a stand-in kubelet, driven from outside:
//
//	Machine   QEMU's process and its end (machine.go)
//	Monitor   hardware that comes and goes: QMP, QEMU's protocol (qmp.go)
//	Guest     commands, kubelet's calls, what kubelet received (guest.go)
//
// What is in the machine is made by ../kernel.sh, which says where by an environment variable.
package machine
