// Package smi reads the events of the amdgpu driver's compute side (KFD) about a GPU: that it
// is about to be reset, that it was reset, that heat throttles it. The interface is that of
// Linux, include/uapi/linux/kfd_ioctl.h and drivers/gpu/drm/amd/amdkfd/kfd_smi_events.c:
//
//	/dev/kfd  -- ioctl AMDKFD_IOC_SMI_EVENTS {gpu_id} -->  a file for the GPU's events
//	file      <-- 8 bytes: which events, 1 << (number-1)
//	file      --> lines "number payload", the number in hexadecimal
//
// The driver has room for 1 to 8 KiB of events that were not read, and drops what follows. It
// reports nothing when a GPU is unplugged.
//
// Reading events has a price for others:
//
//   - While one of these files is open, the amdgpu module cannot be unloaded (kfd_smi_ev_fops).
//   - The driver keeps a process that has opened /dev/kfd in kfd_processes_table until its memory
//     is gone (kfd_open, kfd_process_notifier_release), also if it has closed the node. Before
//     Linux 6.17, one process in that table keeps it from switching the partition mode of any GPU;
//     since then, from switching those GPUs that the process's device cgroup allows
//     (kgd2kfd_check_and_lock_kfd in kfd_device.c).
package smi
