// Package drm reads /sys/class/drm: which card and render minors there are
// (/dev/dri/cardN, /dev/dri/renderDN), and which device each is of. That is a PCI
// function, or for a partition of an AMD GPU a platform device of the name
// amdgpu_xcp_N, on some kernels amdgpu_xcp.N.
//
// It knows no GPU: whose partition a platform device is, the kernel says only in KFD's
// topology, and gpu puts the two together. A minor that cannot be read costs its
// device, as a [Problem]. Facts are from the kernel's drivers/gpu/drm/drm_sysfs.c,
// drm_drv.c and drivers/gpu/drm/amd/amdxcp.
package drm
