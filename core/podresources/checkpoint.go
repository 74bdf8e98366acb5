package podresources

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// An owner that no list has named is an ordinary init container, or its pod
// was gone before the first list. Kubelet's checkpoint has the former and not the latter: a
// List request frees the devices of pods that are gone, and the next list of devices makes
// kubelet write the file (UpdateAllocatedDevices and genericDeviceUpdateCallback in
// pkg/kubelet/cm/devicemanager of k8s.io/kubernetes). The file is internal to kubelet: if
// it is missing or has an unknown form, no owner is ended.

// maxCheckpoint bounds the part of the file that is read, in bytes.
const maxCheckpoint = 64 << 20

// kubeletCheckpoint has the units that kubelet has allocated, the names of all resources that it
// knows, and when it wrote the file.
type kubeletCheckpoint struct {
	written   time.Time
	units     map[Unit]bool
	resources map[string]bool
}

// Resources returns the names of the resources that kubelet's device manager knows, by its
// checkpoint; none if that cannot be read.
func Resources(path string) map[string]bool {
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
	c := kubeletCheckpoint{written: info.ModTime(), units: map[Unit]bool{}, resources: map[string]bool{}}
	for name := range content.Data.RegisteredDevices {
		c.resources[name] = true
	}
	unknown := content.Data.RegisteredDevices == nil
	for _, entry := range content.Data.PodDeviceEntries {
		c.resources[entry.ResourceName] = true
		unknown = unknown || entry.ResourceName == "" || len(entry.DeviceIDs) == 0
		for _, ids := range entry.DeviceIDs {
			for _, id := range ids {
				c.units[Unit{entry.ResourceName, id}] = true
			}
		}
	}
	if unknown {
		return kubeletCheckpoint{}, fmt.Errorf("read kubelet's checkpoint %s: it has an unknown form", path)
	}
	return c, nil
}

// Gone returns those of the units that kubelet's checkpoint does not have either, of which no list has named any since it was
// given ([Presence.IsUnseen]). One in the checkpoint may still be that of a pod that is gone, if the file is old: then kubelet
// is made to write it again.
func (k *Kubelet) Gone(l List, unseen map[Unit]time.Time) (gone []Unit) {
	if k.opts.Checkpoint == "" || len(unseen) == 0 {
		return nil
	}
	c, err := readCheckpoint(k.opts.Checkpoint)
	if err != nil {
		k.log.Debug("cannot read kubelet's checkpoint, so allocations that kubelet does not list stay", "error", err)
		return nil
	}
	for unit, since := range unseen {
		if !c.units[unit] && c.written.After(since) {
			gone = append(gone, unit)
		}
	}
	if len(gone) < len(unseen) && k.opts.Rewrite != nil && l.Began.Sub(c.written) >= k.opts.Timing.Grace {
		k.opts.Rewrite()
	}
	return gone
}
