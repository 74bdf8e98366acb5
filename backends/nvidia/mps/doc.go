// Package mps shares GPUs among containers by NVIDIA's Multi-Process Service: each
// process computes within a limit of memory and of threads.
//
//	backend                      companion (accelmux-backend-nvidia mps)
//	settings ─► Plan ─► Client ─► socket ─► supervisor ─► nvidia-cuda-mps-control -f
//	                      ▲                     │              ▲ set_default_…, get_…
//	                      └────── status ◄──────┴──────────────┘
//
// One control daemon serves all shared GPUs. The CUDA contexts of all clients end with
// it, so it is not the backend's child: [Main] runs it in a companion, which is a pod or a
// unit of its own. The [Client] in the backend sends the plan and
// receives whether the daemon is ready. The package reads no GPUs, and its caller decides
// how a daemon that is not ready affects a device.
//
// Commands and environment are those of NVIDIA's documentation of MPS
// (docs.nvidia.com/deploy/mps, "Tools and Interface Reference").
package mps
