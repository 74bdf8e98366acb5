// Package smi reads the events of the amdgpu driver's compute side (KFD) about a GPU: that it
// is about to be reset, that it was reset, that heat throttles it. The interface is that of
// Linux, include/uapi/linux/kfd_ioctl.h and drivers/gpu/drm/amd/amdkfd/kfd_smi_events.c:
//
//	/dev/kfd  -- ioctl AMDKFD_IOC_SMI_EVENTS {gpu_id} -->  a file for the GPU's events
//	file      <-- 8 bytes: which events, 1 << (number-1)
//	file      --> lines "number payload", the number in hexadecimal
//
// The driver has room for 1 to 8 KiB of events that were not read, and drops what follows. It
// reports nothing when a GPU is unplugged. While one of these files is open, the amdgpu module
// cannot be unloaded.
package smi
