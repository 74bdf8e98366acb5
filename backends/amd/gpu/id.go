package gpu

import (
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// ID returns the ID of a GPU: amdgpu-<unique ID, 16 hexadecimal digits>. Where the kernel
// has no unique ID (cards before GFX9, old kernels) it is amdgpu-pci-<address>, such
// as amdgpu-pci-0000-63-00-0, which stays the same as long as the card stays in its
// slot and the buses are numbered alike.
//
// Both are stable over restarts, reboots, reloads of the driver, other minors and
// another order of discovery.
func ID(uniqueID uint64, at pci.Address) string {
	if uniqueID != 0 {
		return fmt.Sprintf("amdgpu-%016x", uniqueID)
	}
	return "amdgpu-pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(at.String())
}

// PartitionID returns the ID of a partition: that of its GPU if the GPU is one partition,
// else <GPU>-<compute mode>-<index>, such as amdgpu-e3a9a54fea5ac031-cpx-3. The memory
// mode is not part of it: the compute dies of a partition are the same in each.
func PartitionID(gpu, compute string, index int) string {
	if compute == "" || compute == whole {
		return gpu
	}
	return fmt.Sprintf("%s-%s-%d", gpu, strings.ToLower(compute), index)
}
