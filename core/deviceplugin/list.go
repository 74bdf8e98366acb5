package deviceplugin

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// maxList is how many bytes a list may have on the wire. Kubelet receives with
	// gRPC's default limit, 4 MiB; a list over it breaks the stream.
	maxList = 4<<20 - 4<<10
	// blockUnits is how many units are encoded together: a list of 50,000 has 98 blocks,
	// and one unit that changes has 13 kB of its 1.2 MB encoded anew.
	blockUnits = 512
	// listDevices is the number of the field ListAndWatchResponse.devices.
	listDevices = 1
)

// list is a ListAndWatchResponse, encoded: kubelet gets all of it with every change,
// and most of it is what it was. It never changes, and shares blocks with lists before
// it.
type list struct {
	// units are those advertised, sorted by ID.
	units []*unit
	// blocks are their encodings, blockUnits in each but the last.
	blocks [][]byte
	// size is how many bytes the blocks have.
	size int
}

// newList encodes the units, which are sorted by ID, as far as kubelet takes them: the
// list has the first of them.
func newList(units []*unit) list {
	l := list{}
	var block []byte
	for i, u := range units {
		before := len(block)
		if block = appendUnit(block, u); l.size+len(block)-before > maxList {
			block, units = block[:before], units[:i]
			break
		}
		l.size += len(block) - before
		if (i+1)%blockUnits == 0 {
			l.blocks, block = append(l.blocks, bytes.Clone(block)), block[:0]
		}
	}
	if len(block) > 0 {
		l.blocks = append(l.blocks, bytes.Clone(block))
	}
	l.units = units
	return l
}

// with is the list with other units of the same IDs in some places.
func (l list) with(changed map[int32]*unit) list {
	next := list{units: slices.Clone(l.units), blocks: slices.Clone(l.blocks), size: l.size}
	dirty := map[int]struct{}{}
	for place, u := range changed {
		if next.units[place].healthy != u.healthy {
			dirty[int(place)/blockUnits] = struct{}{}
		}
		next.units[place] = u
	}
	for i := range dirty {
		var block []byte
		for _, u := range next.units[i*blockUnits : min((i+1)*blockUnits, len(next.units))] {
			block = appendUnit(block, u)
		}
		next.size += len(block) - len(next.blocks[i])
		next.blocks[i] = block
	}
	return next
}

// The fields of an entry: Device.ID, .health and .topology, TopologyInfo.nodes and
// NUMANode.ID.
const (
	deviceID, deviceHealth, deviceTopology = 1, 2, 3
	topologyNodes, nodeID                  = 1, 1
)

// appendUnit appends an entry of the list, as protobuf encodes a Device. It is written
// out because each change has a block of them encoded anew. What cannot be encoded is
// left out; IDs are checked where they come in.
func appendUnit(to []byte, u *unit) []byte {
	if !utf8.ValidString(u.ID) {
		return to
	}
	health := pluginapi.Unhealthy
	if u.healthy {
		health = pluginapi.Healthy
	}
	topology := 0
	for _, node := range u.Device.NUMANodes {
		topology += protowire.SizeTag(topologyNodes) + protowire.SizeBytes(sizeNode(node))
	}
	size := protowire.SizeTag(deviceHealth) + protowire.SizeBytes(len(health))
	if u.ID != "" {
		size += protowire.SizeTag(deviceID) + protowire.SizeBytes(len(u.ID))
	}
	// No topology at all if it is unknown: kubelet takes an empty one as a hint.
	if topology > 0 {
		size += protowire.SizeTag(deviceTopology) + protowire.SizeBytes(topology)
	}
	to = appendHead(to, listDevices, size)
	if u.ID != "" {
		to = append(appendHead(to, deviceID, len(u.ID)), u.ID...)
	}
	to = append(appendHead(to, deviceHealth, len(health)), health...)
	if topology > 0 {
		to = appendHead(to, deviceTopology, topology)
		for _, node := range u.Device.NUMANodes {
			if to = appendHead(to, topologyNodes, sizeNode(node)); node != 0 {
				to = protowire.AppendVarint(protowire.AppendTag(to, nodeID, protowire.VarintType), uint64(node)) //nolint:gosec // as protobuf has it
			}
		}
	}
	return to
}

// sizeNode is that of a NUMANode; a zero is left out.
func sizeNode(node int) int {
	if node == 0 {
		return 0
	}
	return protowire.SizeTag(nodeID) + protowire.SizeVarint(uint64(node)) //nolint:gosec // as protobuf has it
}

// appendHead begins a field that has so many bytes.
func appendHead(to []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.BytesType), uint64(size)) //nolint:gosec // a size
}

// same tells whether kubelet would see no difference.
func (l list) same(other list) bool { return slices.EqualFunc(l.blocks, other.blocks, bytes.Equal) }

// takesAway tells whether a healthy unit of the list is not healthy in the next one.
func (l list) takesAway(next list) bool {
	i := 0
	for at, old := range l.units {
		if at < len(next.units) && next.units[at] == old || !old.healthy {
			continue
		}
		if at < len(next.units) && next.units[at].ID == old.ID {
			i = at // where it mostly is
		}
		for i < len(next.units) && next.units[i].ID < old.ID {
			i++
		}
		if i == len(next.units) || next.units[i].ID != old.ID || !next.units[i].healthy {
			return true
		}
	}
	return false
}

// listCodec is gRPC's codec for protobuf, which also takes a list.
type listCodec struct{ encoding.CodecV2 }

func newListCodec() listCodec { return listCodec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes a message. The blocks of a list are sent from where they are.
func (c listCodec) Marshal(message any) (mem.BufferSlice, error) {
	l, ok := message.(list)
	if !ok {
		return c.CodecV2.Marshal(message)
	}
	buffers := make(mem.BufferSlice, len(l.blocks))
	for i, block := range l.blocks {
		buffers[i] = mem.SliceBuffer(block)
	}
	return buffers, nil
}
