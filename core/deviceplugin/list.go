package deviceplugin

import (
	"slices"
	"sort"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// maxList is the most bytes of an encoded list. Kubelet receives with gRPC's default limit,
// 4 MiB; a longer list breaks the stream.
const maxList = 4<<20 - 4<<10

// newList returns the list of units, which are sorted by ID. Units at the end that would
// take it past maxList are left out.
func newList(units []*unit) *pluginapi.ListAndWatchResponse {
	values, devices := make([]pluginapi.Device, len(units)), make([]*pluginapi.Device, len(units))
	for i, u := range units {
		devices[i] = &values[i]
		describe(devices[i], u)
	}
	all := &pluginapi.ListAndWatchResponse{Devices: devices}
	if proto.Size(all) <= maxList {
		return all
	}
	fit := sort.Search(len(devices), func(n int) bool {
		return proto.Size(&pluginapi.ListAndWatchResponse{Devices: devices[:n+1]}) > maxList
	})
	return &pluginapi.ListAndWatchResponse{Devices: slices.Clone(devices[:fit])}
}

// describe makes d the entry of a unit in the list. It has no topology if the NUMA nodes are
// unknown: kubelet uses an empty topology as a hint, too.
func describe(d *pluginapi.Device, u *unit) {
	d.ID, d.Health = u.ID, pluginapi.Unhealthy
	if u.healthy {
		d.Health = pluginapi.Healthy
	}
	if len(u.Device.NUMANodes) > 0 {
		d.Topology = &pluginapi.TopologyInfo{}
		for _, node := range u.Device.NUMANodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &pluginapi.NUMANode{ID: int64(node)})
		}
	}
}

// sameList reports whether two lists are equal for kubelet.
func sameList(a, b *pluginapi.ListAndWatchResponse) bool {
	return a == b || slices.EqualFunc(a.GetDevices(), b.GetDevices(), func(a, b *pluginapi.Device) bool {
		return a.GetID() == b.GetID() && a.GetHealth() == b.GetHealth() &&
			slices.EqualFunc(a.GetTopology().GetNodes(), b.GetTopology().GetNodes(), func(a, b *pluginapi.NUMANode) bool {
				return a.GetID() == b.GetID()
			})
	})
}

// takesAway reports whether a healthy device of sent is missing or unhealthy in next. Both
// are sorted by ID.
func takesAway(sent, next *pluginapi.ListAndWatchResponse) bool {
	rest := next.GetDevices()
	for _, d := range sent.GetDevices() {
		if d.GetHealth() != pluginapi.Healthy {
			continue
		}
		for len(rest) > 0 && rest[0].GetID() < d.GetID() {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0].GetID() != d.GetID() || rest[0].GetHealth() != pluginapi.Healthy {
			return true
		}
	}
	return false
}
