// Package drm reads /sys/class/drm: which card and render minors there are
// (/dev/dri/cardN, /dev/dri/renderDN), and which device each is of. That is a PCI
// function, or for a partition of an AMD GPU a platform device of the name
// amdgpu_xcp_N, on some kernels amdgpu_xcp.N.
//
// It is specific to no GPU: only KFD's topology has the GPU of a partition's platform device,
// and package gpu joins the two. A minor that cannot be read has its device left out, with a
// [Problem]. Facts are from the kernel's drivers/gpu/drm/drm_sysfs.c,
// drm_drv.c and drivers/gpu/drm/amd/amdxcp.
package drm
