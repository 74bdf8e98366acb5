package driver

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// linkCache has the known paths between the GPUs.
type linkCache struct {
	gpus  map[string]bool // the GPUs that were read, by place
	links []Link
}

// place identifies a GPU and the fabric state that its paths depend on.
func place(g GPU) string {
	if g.Fabric == nil {
		return g.UUID
	}
	return fmt.Sprintf("%s %s %d %s", g.UUID, g.Fabric.ClusterUUID, g.Fabric.Clique, g.Fabric.State)
}

// readLinks returns how the GPUs are connected. It reads the driver only if a GPU was not
// read before. A GPU that cannot be read has no links, except those that were read
// earlier.
func (d *Driver) readLinks(ctx context.Context, s *session, gpus []GPU) []Link {
	present, wanted := map[string]bool{}, map[string]bool{}
	var able []GPU
	for _, g := range gpus {
		if g.UUID == "" {
			continue
		}
		present[g.UUID] = true
		if g.Err == nil {
			wanted[place(g)] = true
			able = append(able, g)
		}
	}
	s.mu.Lock()
	cache := s.links
	s.mu.Unlock()
	covered := len(cache.gpus) > 0
	for w := range wanted {
		covered = covered && cache.gpus[w]
	}
	if !covered && len(able) > 0 {
		cache = keep(cache, d.queryLinks(ctx, s, able), able)
		s.mu.Lock()
		s.links = cache
		s.mu.Unlock()
	}
	var links []Link
	for _, l := range cache.links {
		if present[l.A] && present[l.B] {
			links = append(links, l)
		}
	}
	return links
}

// keep adds to the links read now the earlier links of GPUs that could not be
// read.
func keep(earlier, now linkCache, read []GPU) linkCache {
	again := map[string]bool{}
	for _, g := range read {
		again[g.UUID] = true
	}
	for _, l := range earlier.links {
		if !again[l.A] || !again[l.B] {
			now.links = append(now.links, l)
		}
	}
	return now
}

// paths has the links of one GPU.
type paths struct {
	switched uint32            // its NVLinks to switches
	peers    map[string]uint32 // its NVLinks to other GPUs, by PCI bus ID
	pcie     map[int]backendv1.LinkKind
	complete bool
}

// queryLinks reads each GPU's NVLinks and its common ancestors with the GPUs after
// it: n x links and n x (n-1) / 2 calls.
func (d *Driver) queryLinks(ctx context.Context, s *session, gpus []GPU) linkCache {
	results := make([]paths, len(gpus))
	each(len(gpus), func(i int) {
		// On an error nothing is known, and the next snapshot reads it again.
		results[i], _ = within(ctx, d, s, d.lane(gpus[i].Index), fmt.Sprintf("links of GPU %d", gpus[i].Index),
			func() paths { return s.readPaths(gpus[i].Index, gpus[i+1:]) })
	})
	cache := linkCache{gpus: map[string]bool{}}
	for i, a := range gpus {
		if results[i].complete {
			cache.gpus[place(a)] = true
		}
		for j := i + 1; j < len(gpus); j++ {
			if l, ok := connection(a, gpus[j], results[i], results[j]); ok {
				cache.links = append(cache.links, l)
			}
		}
	}
	return cache
}

// connection returns how a and b are connected; a comes first.
func connection(a, b GPU, fromA, fromB paths) (Link, bool) {
	l := Link{A: a.UUID, B: b.UUID}
	// The two ends may disagree: a link that is down at one end is down. An end
	// that could not be read is ignored.
	there, back := fromA.peers[b.PCIBusID], fromB.peers[a.PCIBusID]
	direct := max(there, back)
	if there > 0 && back > 0 {
		direct = min(there, back)
	}
	switched, path := min(fromA.switched, fromB.switched), fromA.pcie[b.Index]
	switch {
	case direct > 0 && b.PCIBusID != "" && a.PCIBusID != "":
		l.Kind, l.Count, l.Path = backendv1.LinkKind_LINK_KIND_NVLINK, direct, path
	case switched > 0 && together(a.Fabric, b.Fabric):
		l.Kind, l.Count, l.Path = backendv1.LinkKind_LINK_KIND_NVSWITCH, switched, path
	case path != 0:
		l.Kind, l.Count = path, 1
	default:
		return Link{}, false
	}
	return l, true
}

// together reports whether switches connect two GPUs. Without state from a fabric manager
// (switches of the A100's generation), they connect all.
func together(a, b *Fabric) bool {
	return a == nil && b == nil ||
		a.Joined() && b.Joined() && a.ClusterUUID == b.ClusterUUID && a.Clique == b.Clique
}

// levels are the PCIe kinds by NVML's closest common ancestor.
var levels = map[nvml.GpuTopologyLevel]backendv1.LinkKind{
	nvml.TOPOLOGY_INTERNAL:   backendv1.LinkKind_LINK_KIND_PCIE_SAME_BOARD,
	nvml.TOPOLOGY_SINGLE:     backendv1.LinkKind_LINK_KIND_PCIE_SWITCH,
	nvml.TOPOLOGY_MULTIPLE:   backendv1.LinkKind_LINK_KIND_PCIE_MULTI_SWITCH,
	nvml.TOPOLOGY_HOSTBRIDGE: backendv1.LinkKind_LINK_KIND_PCIE_HOST_BRIDGE,
	nvml.TOPOLOGY_NODE:       backendv1.LinkKind_LINK_KIND_SAME_NUMA,
	nvml.TOPOLOGY_SYSTEM:     backendv1.LinkKind_LINK_KIND_CROSS_NUMA,
}

// readPaths reads one GPU's paths. It runs in the GPU's lane.
func (s *session) readPaths(index int, others []GPU) paths {
	r := &reader{s: s}
	p := paths{peers: map[string]uint32{}, pcie: map[int]backendv1.LinkKind{}}
	device, ok := r.handle(index)
	if !ok {
		return p
	}
	for link := range r.linkCount(device) {
		r.readLink(device, link, &p)
	}
	for _, other := range others {
		r.call("nvmlDeviceGetTopologyCommonAncestor", func() nvml.Return {
			peer, ret := s.lib.DeviceGetHandleByIndex(other.Index)
			if ret != nvml.SUCCESS {
				return nvml.ERROR_NOT_FOUND // the peer's own snapshot reports that
			}
			level, ret := device.GetTopologyCommonAncestor(peer)
			if kind, known := levels[level]; known && ret == nvml.SUCCESS {
				p.pcie[other.Index] = kind
			}
			return ret
		})
	}
	p.complete = r.err == nil
	return p
}

// linkCount returns how many NVLinks the GPU has, up or down.
func (r *reader) linkCount(device nvml.Device) int {
	if n, ok := r.fields(device, nvml.FI_DEV_NVLINK_LINK_COUNT)[nvml.FI_DEV_NVLINK_LINK_COUNT]; ok {
		return max(0, min(int(n), nvml.NVLINK_MAX_LINKS))
	}
	return nvml.NVLINK_MAX_LINKS
}

// readLink adds one NVLink to p, if it is up. For links that a GPU does not have, some
// drivers return an invalid argument and others not supported.
func (r *reader) readLink(device nvml.Device, link int, p *paths) {
	up := false
	r.call("nvmlDeviceGetNvLinkState", func() nvml.Return {
		state, ret := device.GetNvLinkState(link)
		up = ret == nvml.SUCCESS && state == nvml.FEATURE_ENABLED
		return noLink(ret)
	})
	if !up {
		return
	}
	kind := nvml.NVLINK_DEVICE_TYPE_UNKNOWN
	known := r.call("nvmlDeviceGetNvLinkRemoteDeviceType", func() nvml.Return {
		t, ret := device.GetNvLinkRemoteDeviceType(link)
		kind = t
		return noLink(ret)
	})
	if known && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
		p.switched++
		return
	}
	// A remote end that is no GPU of this node matches none.
	r.call("nvmlDeviceGetNvLinkRemotePciInfo", func() nvml.Return {
		info, ret := device.GetNvLinkRemotePciInfo(link)
		if id := busID(info); ret == nvml.SUCCESS && id != "" {
			p.peers[id]++
		}
		return noLink(ret)
	})
}

func noLink(ret nvml.Return) nvml.Return {
	if ret == nvml.ERROR_INVALID_ARGUMENT {
		return nvml.ERROR_NOT_SUPPORTED
	}
	return ret
}
