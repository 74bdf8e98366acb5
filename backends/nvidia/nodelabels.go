package nvidia

import (
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/labels"
	"github.com/accelmux/accelmux/backends/sdk"
)

// NodeLabels implements [engine.Labeler].
func (v vendor) NodeLabels(units []*engine.KnownUnit) []*sdk.NodeLabel {
	if len(units) == 0 {
		return nil
	}
	sharing, versions := v.cfg.sharing(v.gpus.mps), readingOf(units[0].Unit).versions
	n := labels.Node{
		DriverVersion: versions.driver, CUDAVersion: versions.cuda, MIGStrategy: string(v.cfg.strategy), MPS: v.cfg.mps != nil,
	}
	for _, u := range units {
		g := labels.GPU{GPU: readingOf(u.Unit).gpu, MPS: sharing.shareable(readingOf(u.Unit).gpu)}
		if u.Unit.PCI != nil {
			g.Class = u.Unit.PCI.Class
		}
		n.GPUs = append(n.GPUs, g)
	}
	return v.cfg.labels.Labels(n)
}
