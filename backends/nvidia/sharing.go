package nvidia

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
)

// sharing is how GPUs are shared by MPS; nil if they are not.
type sharing struct {
	config   *mps.Config
	notReady func(uuid string) error
}

// shareable reports whether MPS can share the GPU, whether it is lost or not.
func (s *sharing) shareable(g driver.GPU) bool {
	return s != nil && !g.MIGEnabled && s.config.Shares(g.UUID)
}

// add adds a GPU to those that the daemon is to share, with its memory. One with a fault is left out: CUDA cannot use the GPUs
// that are listed after a lost one, and a server must not have a GPU open that is to be reset.
func (s *sharing) add(gpus map[string]uint64, r gpu.Reading, faulty bool) {
	if s.shareable(r.GPU) && !faulty {
		gpus[r.UUID] = r.MemoryBytes
	}
}

// fault returns the fault of a shared GPU while the daemon is not ready.
func (s *sharing) fault(g driver.GPU) *sdk.Health {
	if !s.shareable(g) {
		return nil
	}
	if err := s.notReady(g.UUID); err != nil {
		return sdk.Fault("mps-not-ready", sdk.RecoverySelf, "the GPU is to be shared by MPS: "+err.Error())
	}
	return nil
}

// describe sets on a device how it is shared.
func (s *sharing) describe(d *sdk.Device, g driver.GPU) {
	if !s.shareable(g) {
		return
	}
	d.Attributes["sharing"] = sdk.String("mps")
	if s.config.Claims() {
		s.config.Shareable(d, g.MemoryBytes)
		if !slices.Contains(d.Hooks, sdk.HookPrepare) {
			d.Hooks = append(d.Hooks, sdk.HookPrepare)
		}
		return
	}
	d.PreparedFor = uint32(s.config.Replicas()) //nolint:gosec // 100 at most
	d.Attributes["sharingReplicas"] = sdk.Int(int64(s.config.Replicas()))
}

// edits adds MPS to the container edits of a GPU; nil if there are none yet.
func (s *sharing) edits(own *sdk.Edits, g driver.GPU) *sdk.Edits {
	if own == nil || !s.shareable(g) {
		return own
	}
	more, edits := s.config.Edits(), proto.CloneOf(own) // other devices share parts of it
	if edits.Env == nil {
		edits.Env = map[string]string{}
	}
	maps.Copy(edits.Env, more.GetEnv())
	for _, m := range more.GetMounts() {
		// The container toolkit may have a mount of the directory that NVIDIA uses.
		edits.Mounts = slices.DeleteFunc(edits.Mounts, func(o *sdk.Mount) bool { return o.GetContainerPath() == m.GetContainerPath() })
		edits.Mounts = append(edits.Mounts, m)
	}
	return edits
}

// limits adds to a preparation's edits the limits of the shares that the holder has of GPUs. MPS knows GPUs
// by their numbers in the container, and has one limit of threads for all, so all shares must be equal.
func (s *sharing) limits(held []sdk.HeldDevice, gpus []engine.Target, edits map[string]*sdk.Edits) error {
	if s == nil || !s.config.Claims() {
		return nil
	}
	var of []string
	var share mps.Share
	for _, t := range gpus {
		g := readingOf(t.Unit).GPU
		if instanceOf(t.Device) != nil || !s.shareable(g) {
			continue
		}
		own := s.config.Share(g.MemoryBytes)
		for _, d := range held {
			if d.ID == t.Device.ID {
				own.Memory = cmp.Or(uint64(max(0, d.Capacities[mps.MemoryCapacity])), own.Memory)
				own.Threads = cmp.Or(uint64(max(0, d.Capacities[mps.ThreadsCapacity])), own.Threads)
			}
		}
		if len(of) > 0 && own != share {
			return fmt.Errorf("the shares of %s and %s differ, and MPS cannot limit the GPUs of a container differently: request the same memory and threads of each, or use two claims in different containers",
				of[0], t.Device.ID)
		}
		of, share = append(of, t.Device.ID), own
	}
	for _, id := range of {
		edits[id] = &sdk.Edits{Env: share.Limits(len(of))}
	}
	return nil
}

// impossible returns problems of GPUs in the settings that cannot be shared.
func (s *sharing) impossible(found []gpu.Reading) []string {
	if s == nil {
		return nil
	}
	var problems []string
	for _, uuid := range s.config.Chosen() {
		switch i := slices.IndexFunc(found, func(r gpu.Reading) bool { return r.UUID == uuid }); {
		case i < 0:
			problems = append(problems, fmt.Sprintf("%s: mps.uuids names the GPU, but it is not there", uuid))
		case found[i].MIGEnabled:
			problems = append(problems, fmt.Sprintf("%s: mps.uuids names the GPU, but it is in MIG mode and is not shared", uuid))
		}
	}
	return problems
}
