package drivertest

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// Connect adds n NVLinks from GPU a to GPU b, in this direction only.
func (l *Library) Connect(a, b, n int) {
	l.GPUs[a].set(func() {
		for range n {
			l.GPUs[a].links = append(l.GPUs[a].links, link{kind: nvml.NVLINK_DEVICE_TYPE_GPU, busID: l.GPUs[b].busID()})
		}
	})
}

// Switch adds n NVLinks from every GPU to switches.
func (l *Library) Switch(n int) {
	for _, g := range l.GPUs {
		g.set(func() {
			for range n {
				g.links = append(g.links, link{kind: nvml.NVLINK_DEVICE_TYPE_SWITCH, busID: "00000000:C1:00.0"})
			}
		})
	}
}

func (g *GPU) serveLinks() {
	at := func(function string, index int) (link, nvml.Return) {
		found, ret := get(g, function, func() *link {
			if index < len(g.links) {
				return &g.links[index]
			}
			return nil
		})
		if ret == nvml.SUCCESS && found == nil {
			return link{}, nvml.ERROR_INVALID_ARGUMENT
		}
		if found == nil {
			return link{}, ret
		}
		return *found, ret
	}
	g.GetNvLinkStateFunc = func(index int) (nvml.EnableState, nvml.Return) {
		_, ret := at("nvmlDeviceGetNvLinkState", index)
		return nvml.FEATURE_ENABLED, ret
	}
	g.GetNvLinkRemoteDeviceTypeFunc = func(index int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		l, ret := at("nvmlDeviceGetNvLinkRemoteDeviceType", index)
		return l.kind, ret
	}
	g.GetNvLinkRemotePciInfoFunc = func(index int) (nvml.PciInfo, nvml.Return) {
		l, ret := at("nvmlDeviceGetNvLinkRemotePciInfo", index)
		return pciInfo(l.busID), ret
	}
	// Four GPUs on each socket, two on each switch.
	g.GetTopologyCommonAncestorFunc = func(peer nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		return get(g, "nvmlDeviceGetTopologyCommonAncestor", func() nvml.GpuTopologyLevel {
			other := peer.(*GPU).index
			switch {
			case g.index/2 == other/2:
				return nvml.TOPOLOGY_SINGLE
			case g.index/4 == other/4:
				return nvml.TOPOLOGY_NODE
			}
			return nvml.TOPOLOGY_SYSTEM
		})
	}
}
