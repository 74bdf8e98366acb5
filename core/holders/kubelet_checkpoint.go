package holders

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/wake"
)

// An allocation that no list has named is that of an ordinary init container, or its pod
// was gone before the first list. Kubelet's checkpoint has the former and not the latter: a
// List request frees the devices of pods that are gone, and the next list of devices makes
// kubelet write the file (UpdateAllocatedDevices and genericDeviceUpdateCallback in
// pkg/kubelet/cm/devicemanager of k8s.io/kubernetes). The file is internal to kubelet: if
// it is missing or has an unknown form, no allocation is ended.

// maxCheckpoint bounds the part of the file that is read, in bytes.
const maxCheckpoint = 64 << 20

// kubeletCheckpoint has the units that kubelet has allocated, the names of all resources that it
// knows, and when it wrote the file.
type kubeletCheckpoint struct {
	written   time.Time
	units     map[unitName]bool
	resources map[string]bool
}

// KubeletResources returns the names of the resources that kubelet's device manager knows, by its
// checkpoint; none if that cannot be read.
func KubeletResources(path string) map[string]bool {
	c, err := readCheckpoint(path)
	if err != nil {
		return nil
	}
	return c.resources
}

// readCheckpoint reads kubelet's checkpoint, in its form since kubelet 1.20.
func readCheckpoint(path string) (kubeletCheckpoint, error) {
	file, err := checkpoint.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return kubeletCheckpoint{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return kubeletCheckpoint{}, err
	}
	var content struct {
		Data struct {
			PodDeviceEntries []struct {
				ResourceName string
				DeviceIDs    map[string][]string // by NUMA node
			}
			RegisteredDevices map[string][]string
		}
	}
	if err := json.NewDecoder(io.LimitReader(file, maxCheckpoint)).Decode(&content); err != nil {
		return kubeletCheckpoint{}, fmt.Errorf("read kubelet's checkpoint %s: %w", path, err)
	}
	c := kubeletCheckpoint{written: info.ModTime(), units: map[unitName]bool{}, resources: map[string]bool{}}
	for name := range content.Data.RegisteredDevices {
		c.resources[name] = true
	}
	unknown := content.Data.RegisteredDevices == nil
	for _, entry := range content.Data.PodDeviceEntries {
		c.resources[entry.ResourceName] = true
		unknown = unknown || entry.ResourceName == "" || len(entry.DeviceIDs) == 0
		for _, ids := range entry.DeviceIDs {
			for _, id := range ids {
				c.units[unitName{entry.ResourceName, id}] = true
			}
		}
	}
	if unknown {
		return kubeletCheckpoint{}, fmt.Errorf("read kubelet's checkpoint %s: it has an unknown form", path)
	}
	return c, nil
}

// endUnseen ends the allocations that neither a list nor kubelet's checkpoint has. One in
// the checkpoint may still be that of a pod that is gone, if the file is old: then kubelet
// is made to write it again.
func (b *Book) endUnseen(l listing, listed map[unitName][]Container) {
	if b.opts.Checkpoint == "" || !l.conclusive(b.opts.Timing.Settle) {
		return
	}
	b.mu.Lock()
	unseen := map[unitName]*allocation{}
	for name, a := range b.allocations {
		// After this time kubelet has written its allocation: it does so before the pod
		// starts.
		if a.holder.Kind == KindContainer && !a.listed && listed[name] == nil && l.began.Sub(a.holder.since) >= b.opts.Timing.Grace {
			unseen[name] = a
		}
	}
	b.mu.Unlock()
	if len(unseen) == 0 {
		return
	}
	c, err := readCheckpoint(b.opts.Checkpoint)
	if err != nil {
		b.log.Debug("cannot read kubelet's checkpoint, so allocations that kubelet does not list stay", "error", err)
		return
	}
	if ended := b.endMissing(unseen, c); ended {
		wake.Send(b.file.outdated)
		wake.Send(b.changed)
	}
	if len(unseen) > 0 && b.opts.Rewrite != nil && l.began.Sub(c.written) >= b.opts.Timing.Grace {
		b.opts.Rewrite()
	}
}

// endMissing ends the allocations that are missing in a checkpoint written after them, and
// removes them from unseen.
func (b *Book) endMissing(unseen map[unitName]*allocation, c kubeletCheckpoint) (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, a := range unseen {
		switch {
		case b.allocations[name] != a:
			delete(unseen, name)
		case !c.units[name] && c.written.After(a.holder.since):
			delete(unseen, name)
			b.drop(name)
			ended = true
		}
	}
	return ended
}
