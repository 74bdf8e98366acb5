// Package ama finds AMD's MA35D video accelerators under the kernel driver of AMD's AMA Video
// SDK (module ama_transcoder, PCI driver transcoder). A card has two chips, each a PCI
// function of its own:
//
//	PCI function 10ee:5070 ──► /sys/class/misc/ama_transcoder<N>/{bus_id,device_info,hw_err}
//	                           /dev/ama_transcoder<N>
//
// A function with virtual functions (10ee:5071) only manages them. Chips are not programmed,
// and the driver has no reset that is safe to ask for.
//
// Names of files and their forms are those of the driver (core.c and pcie.c of its DKMS
// source tree) and of AMD's device plugin.
package ama
