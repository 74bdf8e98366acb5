package inventory

import "slices"

// Look is when the core looks whether a process has a device open: before Reset, which it refuses then, and before Prepare, to
// log the processes (Report) or to refuse the preparation (Fail, whatever Report is).
type Look struct{ Reset, Report, Fail bool }

// OwnNodes returns the nodes that devices have, each once, without those of others: a process that has a node open which
// other devices have, too, such as /dev/kfd, need not use these devices. Others are not the devices that these are parts of.
// without are those of the devices that have no node of their own, but for potential ones: what does not exist has no users.
func (b *Backend) OwnNodes(ids ...string) (nodes []DeviceNode, without []string) {
	devices, related := map[string]*Device{}, map[string]bool{}
	for _, d := range b.Devices {
		devices[d.ID] = d
	}
	for _, id := range ids {
		for d := devices[id]; d != nil && !related[d.ID]; d = devices[d.Parent] {
			related[d.ID] = true
		}
	}
	shared := map[string]bool{}
	for _, d := range b.Devices {
		for _, n := range d.Edits.DeviceNodes {
			shared[n.HostPath] = shared[n.HostPath] || !related[d.ID]
		}
	}
	for _, id := range ids {
		d, own := devices[id], false
		if d != nil {
			for _, n := range d.Edits.DeviceNodes {
				if shared[n.HostPath] {
					continue
				}
				own = true
				if !slices.ContainsFunc(nodes, func(o DeviceNode) bool { return o.HostPath == n.HostPath }) {
					nodes = append(nodes, n)
				}
			}
		}
		if !own && (d == nil || !d.Potential) {
			without = append(without, id)
		}
	}
	return nodes, without
}
