// Package mps runs the control daemon of NVIDIA's Multi-Process Service, by which
// several containers compute on one GPU at the same time, each within a limit of
// memory and of threads.
//
//	settings ──► Plan ──► Supervisor ──► nvidia-cuda-mps-control -f
//	                          │               ▲ set_default_…, get_…
//	                          └───────────────┘
//
// There is one daemon for all GPUs that are shared. A [Supervisor] starts it, asks
// whether it answers, starts it again when it dies, and ends it. What the GPUs are,
// and what a device that is not ready means, is not known here.
//
// The commands and the environment are those of NVIDIA's documentation of MPS
// (docs.nvidia.com/deploy/mps, "Tools and Interface Reference").
package mps
