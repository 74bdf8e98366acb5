// Package smi hears the events of the amdgpu driver's compute side (KFD) about a
// GPU: that it is about to be reset and was reset, that heat slows it down, that a
// program's access to memory failed. The interface is that of Linux,
// include/uapi/linux/kfd_ioctl.h and drivers/gpu/drm/amd/amdkfd/kfd_smi_events.c:
//
//	/dev/kfd  -- ioctl AMDKFD_IOC_SMI_EVENTS {gpu_id} -->  a file for the GPU's events
//	file      <-- 8 bytes: which events, 1 << (number-1)
//	file      --> lines "number payload", the number in hexadecimal
//
// The driver has room for 1 to 8 KiB of events that nobody has read, and drops what
// comes then. It says nothing when a GPU is unplugged. As long as one of these files
// is open, the amdgpu module cannot be unloaded.
package smi
