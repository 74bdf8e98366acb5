package mps

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The capacities of a GPU of which claims have shares: bytes of memory, and percent of the threads.
const (
	MemoryCapacity  = "memory"
	ThreadsCapacity = "threads"
)

// The variables of an MPS client that limit it, from NVIDIA's documentation of MPS (Environment Variables).
const (
	memoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	threadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
)

// Share is a part of a GPU: bytes of its memory, in whole MiB, and percent of its threads; 0 for no limit.
type Share struct{ Memory, Threads uint64 }

// Claims reports whether claims request shares of the GPUs.
func (c *Config) Claims() bool { return c.settings.Claims }

// Share returns the limits of a process on a GPU with this much memory, unless a claim requests others.
func (c *Config) Share(memory uint64) (share Share) {
	s, replicas := c.settings, uint64(c.settings.Replicas) //nolint:gosec // 2 to 100
	if !s.Threads.Off {
		share.Threads = s.Threads.Value
		if share.Threads == 0 {
			share.Threads = 100 / replicas
		}
	}
	switch {
	case s.Memory.Off:
	case s.Memory.Value > 0:
		share.Memory = s.Memory.Value
	default:
		share.Memory = memory / replicas
	}
	share.Memory -= share.Memory % mebibyte
	return share
}

// Shareable makes a GPU one of which claims request shares; those that request nothing get the usual one.
func (c *Config) Shareable(d *sdk.Device, memory uint64) {
	d.Shareable, d.RequestPolicies = true, map[string]*backendv1.RequestPolicy{}
	share := c.Share(memory)
	if share.Memory > 0 && share.Memory <= memory {
		d.RequestPolicies[MemoryCapacity] = MemoryPolicy(share.Memory, memory)
	}
	if share.Threads > 0 {
		d.Capacities[ThreadsCapacity] = 100
		d.RequestPolicies[ThreadsCapacity] = requestPolicy(share.Threads, 100, 1)
	}
}

// MemoryPolicy lets claims request whole MiB of a GPU's memory; one that requests nothing gets the usual amount.
func MemoryPolicy(usual, memory uint64) *backendv1.RequestPolicy {
	return requestPolicy(usual-usual%mebibyte, memory-memory%mebibyte, mebibyte)
}

func requestPolicy(usual, most, step uint64) *backendv1.RequestPolicy {
	//nolint:gosec // bytes of a GPU's memory, and percent
	return &backendv1.RequestPolicy{Default: int64(usual), Range: &backendv1.AmountRange{Min: int64(step), Max: int64(most), Step: int64(step)}}
}

// Limits returns the variables of a container that has the share of each of so many GPUs.
func (s Share) Limits(gpus int) map[string]string {
	env := map[string]string{}
	if s.Threads > 0 {
		env[threadsVariable] = strconv.FormatUint(s.Threads, 10)
	}
	if s.Memory > 0 {
		limits := make([]string, gpus)
		for i := range limits { // CUDA's numbers of the GPUs in the container
			limits[i] = fmt.Sprintf("%d=%dM", i, s.Memory/mebibyte)
		}
		env[memoryVariable] = strings.Join(limits, ",")
	}
	return env
}
