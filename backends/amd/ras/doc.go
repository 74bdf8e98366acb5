// Package ras reads the error counters that the amdgpu driver keeps of a card: what
// its memory and its blocks corrected and could not correct, retired memory pages,
// and errors of its links. Files, as in drivers/gpu/drm/amd/amdgpu (amdgpu_ras.c,
// amdgpu_xgmi.c, amdgpu_device.c) of Linux, in the directory of the PCI function:
//
//	ras/<block>_err_count    "ue: N", "ce: N", on newer kernels "de: N" too
//	ras/gpu_vram_bad_pages   a line for each page: "address : size : state"
//	xgmi_error               errors of the XGMI links since it was last read
//
// A card has those that its hardware and driver know; what is missing is unknown,
// not zero. What is a fault is decided by the callers.
package ras
